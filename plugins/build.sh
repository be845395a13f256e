#!/usr/bin/env bash
# Builds each main package of this module to ../bin/plugins/NAME.wasm (or to the
# directory given). Go itself sees what has changed. The bytes depend on the sources
# and the version of Go only, not on where and when they are built.
set -euo pipefail
case ${1:-} in
'') out=../bin/plugins ;;
/*) out=$1 ;;
*) out=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
mkdir -p "$out"

# The host's own settings must not leak into the modules.
export GOOS=wasip1 GOARCH=wasm GOFLAGS= GOWORK=off CGO_ENABLED=0

go list -f '{{if eq .Name "main"}}{{.Dir}}{{end}}' ./... | while read -r dir; do
	[ -n "$dir" ] || continue
	wasm=$out/$(basename "$dir").wasm
	go build -buildmode=c-shared -trimpath -buildvcs=false -ldflags='-s -w' -o "$wasm" "$dir"
	printf '%s\t%s bytes\n' "${wasm#../}" "$(wc -c <"$wasm" | tr -d ' ')"
done
