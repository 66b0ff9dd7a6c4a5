#!/usr/bin/env bash
# Create (or keep) the virtual environment named by $1 with $PYTHON, a Python 3.11 or newer.
set -euo pipefail

venv=$1
python=${PYTHON:-python3}

fail() {
    printf 'make venv: %s\n' "$@" >&2
    exit 1
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

command -v "$python" >/dev/null ||
    fail "no $python on the PATH. Install Python 3.11 or newer (Debian: apt-get install python3 python3-venv)" \
        "or name one: make venv PYTHON=/path/to/python3.11"
is_new_enough "$python" ||
    fail "$python is $("$python" -V 2>&1), Lakebed needs Python 3.11 or newer." \
        "Install one (Debian 12: apt-get install python3 python3-venv) or name one: make venv PYTHON=python3.12"

# A usable environment stays: pip brings it up to date. One that was cut off half-way is made again.
if [ -x "$venv/bin/python" ] && is_new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1
then
    exit 0
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "make venv: $python has no venv module, installing $package"
        apt-get install -y -q "$package" >/dev/null 2>&1 ||
            { apt-get update -q >/dev/null && apt-get install -y -q "$package" >/dev/null; } ||
            fail "could not install $package: see the lines above"
    else
        fail "$python has no venv module. Install it (Debian: sudo apt-get install $package), then run make again."
    fi
fi

echo "make venv: creating $venv with $("$python" -V 2>&1) and installing the pinned packages; this takes a minute or two"
"$python" -m venv --clear "$venv"
