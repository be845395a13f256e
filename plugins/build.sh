#!/usr/bin/env bash
# Builds each main package of this module to ../bin/plugins/NAME.wasm (or to the
# directory given). Go itself sees what has changed. The bytes depend on the sources
# and the version of Go only, not on where and when they are built.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-../bin/plugins}
mkdir -p "$out"

# The host's own settings must not leak into the modules.
export GOOS=wasip1 GOARCH=wasm GOFLAGS= GOWORK=off CGO_ENABLED=0

go list -f '{{if eq .Name "main"}}{{.Dir}}{{end}}' ./... | while read -r dir; do
	[ -n "$dir" ] || continue
	wasm=$out/$(basename "$dir").wasm
	go build -buildmode=c-shared -trimpath -buildvcs=false -ldflags='-s -w' -o "$wasm" "$dir"
	printf '%s\t%s bytes\n' "${wasm#../}" "$(wc -c <"$wasm" | tr -d ' ')"
done
