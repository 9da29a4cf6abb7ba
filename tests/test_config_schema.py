"""The JSON Schema for editors, by an independent validator: it takes every good file and refuses the wrong ones."""

import functools
import json
import pathlib
import re

import jsonschema
import pytest
import yaml

HERE = pathlib.Path(__file__).parent
SCHEMA = json.loads((HERE.parent / "docs" / "config.schema.json").read_text())

# Mistakes that a schema cannot express: they need the API table, arithmetic, the text itself, other files,
# variables' values, or names that stand elsewhere in the file.
BEYOND = {
    "duplicate_key", "duration_fraction", "duration_high", "duration_low", "duration_zero",
    "extends_itself", "extends_unknown",
    "field_taken", "fields_long", "fields_room", "forms", "function", "function_far", "function_glob", "function_tail",
    "include_circle", "include_control", "include_deep", "include_directory", "include_glob_dir", "include_itself",
    "include_missing", "include_not_map", "include_unset",
    "many_mistakes", "nothing_selected", "nul_escape",
    "profile_none", "profile_nothing_selected", "profile_sink_no_type", "profile_sink_remove", "profile_sinks_gone",
    "profile_unknown",
    "rename_format", "rename_taken",
    "sink_block", "size_fraction", "size_large", "size_overflow", "size_overflow_unit", "size_power",
    "size_power_decimal", "size_small",
    "tag", "utf16",
    "variable_in_default", "variable_null", "variable_open", "variable_profile", "variable_type", "variable_unset",
}


class Core(yaml.SafeLoader):
    """YAML 1.2's core schema, as editors read it."""

    yaml_implicit_resolvers = {}


for tag, regex, first in (
    ("null", r"^(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(true|false)$", list("tf")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?$", list("-+0123456789")),
    ("merge", r"^<<$", ["<"]),
):
    Core.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(regex), first)


def construct_int(loader, node):
    return int(node.value)


Core.add_constructor("tag:yaml.org,2002:int", construct_int)


def examples():
    found = sorted((HERE.parent / "examples").glob("**/*.yaml"))
    # what the editor is told to check by
    mine = [path for path in found if path.read_text().startswith("# yaml-language-server: $schema=")]
    assert mine
    return [pytest.param(path, id=path.stem) for path in mine]


def files(kind):
    found = [path for path in sorted((HERE / "config" / kind).glob("*.yaml")) if path.stem not in BEYOND]
    assert len(found) > 15
    return [pytest.param(path, id=path.stem) for path in found]


@functools.cache
def validator():
    cls = jsonschema.validators.validator_for(SCHEMA)
    cls.check_schema(SCHEMA)
    return cls(SCHEMA)


@pytest.mark.parametrize("path", files("good"))
def test_good(path):
    document = yaml.load(path.read_bytes(), Core)
    errors = [f"{e.json_path}: {e.message}" for e in validator().iter_errors(document)]
    assert not errors


@pytest.mark.parametrize("path", examples())
def test_example(path):
    first = path.read_text().splitlines()[0]
    schema = path.parent / first.split("$schema=")[1]
    assert json.loads(schema.read_text()) == SCHEMA
    test_good(path)


@pytest.mark.parametrize("path", files("wrong"))
def test_wrong(path):
    try:
        document = yaml.load(path.read_bytes(), Core)
    except (yaml.YAMLError, UnicodeDecodeError):
        return
    assert not validator().is_valid(document)


def test_fifty_are_refused():
    assert len(files("wrong")) >= 50


def test_exceptions_are_needed():
    needless = []
    for name in BEYOND:
        try:
            document = yaml.load((HERE / "config" / "wrong" / f"{name}.yaml").read_bytes(), Core)
        except (yaml.YAMLError, UnicodeDecodeError):
            continue
        if not validator().is_valid(document):
            needless.append(name)
    assert not needless
