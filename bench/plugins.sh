#!/usr/bin/env bash
# What plugins cost a request inside the process: the benchmarks of
# internal/engine, in rounds that alternate forward and backward, compared by
# benchstat (Mann-Whitney; "~" is no difference that could be shown). One core:
# client, gateway and origin hand over to each other without waking threads.
#
# usage: bench/plugins.sh [ROUNDS [SECONDS]]      (default: 10 rounds of 0.5 s)
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-10} seconds=${2:-0.5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

go test -c -o "$dir/engine.test" ./internal/engine
GOBIN=$dir go install golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

names=(Direct CompiledIn/plugins=used CompiledIn/plugins=all GlobalRule/rule=off GlobalRule/rule=prometheus
  Disabled/observers=none Disabled/observers=disabled Chain/chain=none Chain/chain=four Population/size=100x10 Population/size=10000x1000)
last=$((${#names[@]} - 1))
for r in $(seq "$rounds"); do
  for i in $(seq 0 $last); do
    [ $((r % 2)) -eq 1 ] || i=$((last - i))
    pattern="^Benchmark${names[i]//\//\$/^}\$"
    (cd internal/engine && "$dir/engine.test" -test.run '^$' -test.cpu 1 -test.benchtime "${seconds}s" -test.bench "$pattern") \
      | grep -v '^PASS$' >>"$dir/rows"
  done
  echo "round $r of $rounds" >&2
done

compare() { # KEY NAME WHAT
  echo; echo "== $3"
  "$dir/benchstat" -filter ".name:$2 .unit:(cpu-ns/op OR allocs/op)" -col "$1" "$dir/rows" | grep -v -e '^$' -e '^goos:' -e '^goarch:' -e '^pkg:' -e '^cpu:'
}
echo; echo "== client and origin alone: subtract it for the gateway's own share"
"$dir/benchstat" -filter '.name:Direct .unit:cpu-ns/op' "$dir/rows" | grep Direct
compare /plugins CompiledIn "all plugins compiled in against those in use: no difference"
compare /rule GlobalRule "prometheus as a global rule: at most 5 %"
compare /observers Disabled "logs, metrics and traces configured and disabled against none: no difference"
compare /chain Chain "key-auth, limit-count, prometheus, proxy-rewrite against no plugin"
compare /size Population "10,000 consumers with limits x 1,000 routes against 100 x 10: no difference"
