#!/bin/sh
# ccache.sh COMPILER ARGUMENTS...: compiles through ccache where it is installed. It is looked for at each call, so that
# the commands of a build, and with them its objects, stay valid when ccache is installed later. The base folder makes
# paths relative, so that checkouts share what they compile.
command -v ccache >/dev/null || exec "$@"
CCACHE_BASEDIR=$(dirname "$(dirname "$0")")
CCACHE_NOHASHDIR=1
CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_SLOPPINESS
exec ccache "$@"
