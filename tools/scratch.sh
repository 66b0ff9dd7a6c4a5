#!/usr/bin/env bash
# Print a directory for files of tests: in memory if that has room for them, else where temporary files go.
set -euo pipefail
memory=/dev/shm
needed=$((8 * 1024 * 1024)) # KiB
free=$(df --output=avail "$memory" 2>/dev/null | tail -n 1 || true)
if [ -n "$free" ] && [ "$free" -ge "$needed" ] && [ -w "$memory" ] && [ -z "${TMPDIR:-}" ]; then
	# What is there counts as used memory, so the machine must have it to spare.
	available=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
	if [ "${available:-0}" -ge $((2 * needed)) ]; then
		echo "$memory"
		exit
	fi
fi
echo "${TMPDIR:-/tmp}"
