"""Certificates for receivers with TLS, made by openssl(1): an authority, and what it vouches for."""

import datetime
import pathlib
import subprocess


def _openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Pair:
    """A certificate with its key, and the authority's certificate."""

    def __init__(self, ca, cert, key):
        self.ca, self.cert, self.key = ca, cert, key


class Authority:
    def __init__(self, directory, name="ca"):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.cert = self.directory / f"{name}.pem"
        self.key = self.directory / f"{name}.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", f"/CN=test authority {name}", "-keyout", self.key, "-out", self.cert)

    def issue(self, name, hosts=("DNS:localhost", "IP:127.0.0.1"), expired=False):
        """A certificate for `hosts`; an expired one ended yesterday."""
        key, request, cert = (self.directory / f"{name}.{end}" for end in ("key", "csr", "pem"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={','.join(hosts)}\nextendedKeyUsage=serverAuth,clientAuth\n"
                              "basicConstraints=CA:false\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", key, "-out", request)
        begin = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=3)
        end = begin + datetime.timedelta(days=2 if expired else 9)
        database = self.directory / "index.txt"
        database.touch()
        (self.directory / "ca.cnf").write_text(
            f"[ca]\ndefault_ca=a\n[a]\nnew_certs_dir={self.directory}\ndatabase={database}\nrand_serial=yes\n"
            "default_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n")
        _openssl("ca", "-batch", "-config", self.directory / "ca.cnf", "-cert", self.cert, "-keyfile", self.key,
                 "-startdate", begin.strftime("%Y%m%d%H%M%SZ"), "-enddate", end.strftime("%Y%m%d%H%M%SZ"),
                 "-extfile", extensions, "-notext", "-in", request, "-out", cert)
        return Pair(self.cert, cert, key)
