#!/usr/bin/env bash
# Find Java 17 or newer (Spark 4 needs it), or install it where that needs no question.
#   ensure_java.sh                say which Java is used; install one if there is none
#   ensure_java.sh --print-home   print its JAVA_HOME only; never install
# LAKEBED_JVM_DIR is where installed Javas are looked for (default /usr/lib/jvm).
set -euo pipefail

minimum=17
jvm_dir=${LAKEBED_JVM_DIR:-/usr/lib/jvm}

# The major version of the java binary $1, or 0 if it does not run. Java 8 calls itself 1.8.
major_of() {
    local line
    line=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9.]*\).*/\1/p' | head -n 1) || true
    line=${line#1.}
    line=${line%%.*}
    echo "${line:-0}"
}

is_new_enough() { [ -x "$1" ] && [ "$(major_of "$1")" -ge "$minimum" ]; }

# The candidates in order: the caller's JAVA_HOME, the PATH, then the installed ones, 17 and 21 first.
candidates() {
    [ -z "${JAVA_HOME:-}" ] || echo "$JAVA_HOME/bin/java"
    command -v java || true
    local home
    for home in "$jvm_dir"/*-17-* "$jvm_dir"/*-21-* "$jvm_dir"/*; do
        [ ! -x "$home/bin/java" ] || echo "$home/bin/java"
    done
}

find_java() {
    local java
    while read -r java; do
        if is_new_enough "$java"; then
            java=$(readlink -f "$java")
            echo "${java%/bin/java}"
            return 0
        fi
    done < <(candidates)
    return 1
}

install_java() {
    command -v apt-get >/dev/null || return 1
    local sudo=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || return 1
        sudo=(sudo -n)
    fi
    echo "make java: no Java $minimum or newer found, installing one with apt-get" >&2
    "${sudo[@]}" apt-get update -q >/dev/null || true
    local package
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        if "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
            "$package" >/dev/null; then
            return 0
        fi
    done
    return 1
}

found=$(find_java) || found=
if [ -z "$found" ] && [ "${1:-}" != --print-home ] && install_java; then
    found=$(find_java) || found=
fi
if [ -z "$found" ]; then
    {
        echo "make java: Spark needs Java $minimum or newer; none found in JAVA_HOME, on the PATH or in $jvm_dir."
        echo "Install one, then run make again:"
        echo "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless   (or default-jre-headless)"
        echo "  Fedora:          sudo dnf install java-21-openjdk-headless"
        echo "  macOS:           brew install openjdk@17"
        echo "or set JAVA_HOME to the folder of an installed one."
    } >&2
    exit 1
fi

if [ "${1:-}" = --print-home ]; then
    echo "$found"
else
    echo "make java: Java $(major_of "$found/bin/java") in $found"
fi
