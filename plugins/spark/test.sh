#!/bin/sh
# Builds the plug-in and runs its tests.
#
# usage: test.sh [WORD OF A TEST'S NAME...]
# $PYTHON (python3) has pyspark. With words, the tests of DataFrames are left out.
set -eu
cd "$(dirname "$0")"
if [ -z "${SPARK_HOME:-}" ]; then
    SPARK_HOME=$("${PYTHON:-python3}" -c 'import os, pyspark
print(os.path.dirname(pyspark.__file__))')
fi
./build.sh
# As bin/spark-submit does: the version of Scala for executors, and what Java 17 needs.
SPARK_SCALA_VERSION=2.13
export SPARK_HOME SPARK_SCALA_VERSION
opens=
for package in java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util \
    java.util.concurrent java.util.concurrent.atomic sun.nio.ch sun.nio.cs sun.security.action \
    sun.util.calendar; do
    opens="$opens --add-opens=java.base/$package=ALL-UNNAMED"
done
run() {
    class=$1
    shift
    # shellcheck disable=SC2086 (words of $opens are options)
    java $opens ${JAVA_OPTIONS:-} \
        -Dpolyplane.jars="$PWD/build/polyplane-spark.jar,$PWD/build/tests.jar" \
        -Dlog4j2.configurationFile="$PWD/tests/log4j2.properties" \
        -cp "build/tests.jar:build/polyplane-spark.jar:$SPARK_HOME/jars/*" \
        "org.polyplane.spark.$class" "$@"
}
run ClientTest "$@"
run ShuffleTest "$@"
if [ $# -eq 0 ]; then
    "${PYTHON:-python3}" tests/dataframes.py
fi
