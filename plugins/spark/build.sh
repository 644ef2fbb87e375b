#!/bin/sh
# Builds build/polyplane-spark.jar, and the classes of the tests, against the jars of Spark.
#
# usage: build.sh
# The jars are those of $SPARK_HOME, or else of the pyspark that $PYTHON (python3) imports.
set -eu
cd "$(dirname "$0")"
if [ -z "${SPARK_HOME:-}" ]; then
    SPARK_HOME=$("${PYTHON:-python3}" -c 'import os, pyspark
print(os.path.dirname(pyspark.__file__))') || {
        echo 'no Spark: set SPARK_HOME, or PYTHON to a Python that has pyspark' >&2
        exit 1
    }
fi
rm -rf build
mkdir -p build/classes build/tests
javac --release 17 -Xlint:all,-serial,-classfile,-processing,-path -Werror -d build/classes \
    -cp "$SPARK_HOME/jars/*" $(find src -name '*.java')
jar --create --file build/polyplane-spark.jar -C build/classes .
javac --release 17 -Xlint:all,-serial,-classfile,-processing,-path -Werror -d build/tests \
    -cp "build/polyplane-spark.jar:$SPARK_HOME/jars/*" $(find tests -name '*.java')
jar --create --file build/tests.jar -C build/tests .
echo "plugins/spark/build/polyplane-spark.jar, of $SPARK_HOME"
