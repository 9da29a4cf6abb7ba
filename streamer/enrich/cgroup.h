/*
 * What the path of a cgroup tells: the container and the Kubernetes pod. The
 * forms are those of Docker, containerd, CRI-O, Podman and the kubelet, with
 * the cgroupfs and the systemd driver:
 *
 *	/docker/<64 hex>			/system.slice/docker-<64 hex>.scope
 *	/kubepods/burstable/pod<uid>/<64 hex>	.../cri-containerd-<64 hex>.scope
 *	/machine.slice/libpod-<64 hex>.scope/container
 *	/kubepods.slice/kubepods-pod<uid with underscores>.slice/crio-<64 hex>.scope
 */
#ifndef CUDATAP_CGROUP_H
#define CUDATAP_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

#define CGROUP_CONTAINER_ID 64
#define CGROUP_POD_UID      36

/**
 * cgroup_container - the container that one name of a cgroup's path is of
 * @ret_id: its id and a NUL, untouched when there is none
 */
bool cgroup_container(const char *name, size_t len, char ret_id[CGROUP_CONTAINER_ID + 1]);

/** cgroup_pod - likewise the uid of the pod, with dashes (those of static pods have none) */
bool cgroup_pod(const char *name, size_t len, char ret_uid[CGROUP_POD_UID + 1]);

#endif
