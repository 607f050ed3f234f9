"""Eclipse Tahu's decoder of Sparkplug payloads, a program of Java beside the tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.python.integration.daemons import program_or_skip

__all__ = ["decoded"]

_JARS = {
    "org/eclipse/tahu/tahu-core": "org.eclipse.tahu:tahu-core:1.0.21",
    "com/google/protobuf/protobuf-java": "com.google.protobuf:protobuf-java:3.25.5",
    "org/slf4j/slf4j-api": "org.slf4j:slf4j-api:2.0.16",
    "com/fasterxml/jackson/core/jackson-annotations": (
        "com.fasterxml.jackson.core:jackson-annotations:2.17.2"
    ),
}
# Types are in births alone: a host remembers them by their aliases.
_PROGRAM = r"""
import java.util.HexFormat;
import org.eclipse.tahu.message.SparkplugBPayloadDecoder;
import org.eclipse.tahu.message.model.Metric;
import org.eclipse.tahu.model.MetricDataTypeMap;

class Decode {
    static String quoted(Object value) {
        return value == null ? "null"
            : "\"" + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    public static void main(String[] payloads) throws Exception {
        var types = new MetricDataTypeMap();
        for (String hex : payloads) {
            var payload = new SparkplugBPayloadDecoder()
                .buildFromByteArray(HexFormat.of().parseHex(hex), types);
            var line = new StringBuilder("{\"seq\": " + payload.getSeq() + ", \"metrics\": [");
            String between = "";
            for (Metric metric : payload.getMetrics()) {
                if (metric.getName() != null && metric.getAlias() != null)
                    types.addMetricDataType(metric.getAlias(), metric.getDataType());
                Object unit = metric.getProperties() == null ? null
                    : metric.getProperties().getPropertyValue("engUnit").getValue();
                line.append(between + "[" + quoted(metric.getName()) + ", " + metric.getAlias()
                    + ", " + quoted(metric.getDataType()) + ", " + quoted(metric.getValue())
                    + ", " + quoted(unit) + ", " + metric.getIsHistorical() + "]");
                between = ", ";
            }
            System.out.println(line + "]}");
        }
    }
}
"""


def _jars() -> list[str]:
    found = []
    for folder, artifact in _JARS.items():
        jars = sorted(Path.home().glob(f".m2/repository/{folder}/*/*.jar"))
        if not jars:
            pytest.skip(
                f"no {artifact} on this machine (Maven: mvn dependency:get -Dtransitive=false "
                f"-Dartifact={artifact})"
            )
        found.append(str(jars[-1]))
    return found


def decoded(payloads: Sequence[bytes], folder: Path) -> list[dict[str, Any]]:
    """Each payload's ``seq`` and ``metrics``: name, alias, type, value, unit, is_historical.

    Types and values are texts of Java. Skips the test where Java or a jar is missing.
    """
    java, jars = program_or_skip("java", "default-jdk-headless"), _jars()
    program = folder / "Decode.java"
    program.write_text(_PROGRAM)
    command = [java, "-cp", ":".join(jars), str(program), *(each.hex() for each in payloads)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
