#!/bin/sh
# As the official image's: options and a configuration file go to redis-server, other words are a command.
set -eu
case "${1:-}" in
-* | *.conf) set -- redis-server "$@" ;;
esac
exec "$@"
