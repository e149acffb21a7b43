#!/usr/bin/env bash
# Builds the programs that this project is tested beside into .peers/bin; what is unchanged is kept.
# `make peers` runs this. GO=/path/to/go picks another Go.
set -euo pipefail
cd "$(dirname "$0")"

GO=${GO:-$(command -v go || echo /usr/local/go/bin/go)}
BIN=$(pwd)/../.peers/bin
export GOWORK=off

if ! "$GO" version >/dev/null 2>&1; then
  echo "peers/build.sh: needs Go 1.26.7 or newer (https://go.dev/doc/install); GO= names it" >&2
  exit 1
fi

# build FOLDER PROGRAM... -- [FLAG...] PACKAGE...
build() {
  local folder=$1 programs=() stamp key
  shift
  while [[ $1 != -- ]]; do
    programs+=("$BIN/$1")
    shift
  done
  shift
  stamp=$BIN/.$folder
  key=$({ "$GO" version; cat build.sh; find "$folder" -type f | LC_ALL=C sort | xargs cat; } | sha256sum)
  if [[ -f $stamp && $(<"$stamp") == "$key" ]] && ls "${programs[@]}" >/dev/null 2>&1; then
    echo "$folder: built already"
    return
  fi
  echo "$folder: building"
  rm -f "$stamp"
  mkdir -p "$BIN"
  # A folder as target: one package or several, each gets its own name.
  (cd "$folder" && "$GO" build -mod=readonly -trimpath -ldflags='-s -w' -o "$BIN/" "$@") \
    2> >(grep -v '^go: downloading ' >&2)
  echo "$key" >"$stamp"
}

build otelcol otelcol -- .
# Without service discovery: the tests name their targets.
build prometheus prometheus promtool -- -tags remove_all_sd \
  github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool
build jaeger jaeger -- github.com/jaegertracing/jaeger/cmd/jaeger
