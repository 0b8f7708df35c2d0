#!/usr/bin/env bash
# CPU time per proxied request: weir, nginx doing the same work, nginx with a bare
# proxy_pass (its buffers as they are by default, or unbuffered), and a bare Go byte
# forwarder, one core each, in alternating rounds
# of one run. With --chain weir runs limit-count, prometheus and proxy-rewrite
# beside key-auth, and is compared with nginx that does none of it. With
# --threescale weir serves a 3scale product of seven policies, with 3scale_batcher
# (batcher) and without (threescale), for 512 callers whose authorization is known;
# without, every request is reported to the backend, which the origin plays.
#
# The gateway runs on core 0; wrk and the upstream (nginx) share core 1. CPU time
# is utime+stime of the engine's processes over the round, from /proc. On a
# machine that others use, trust the paired ratios and the minimum, not the rates.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: bench/proxy.sh [options]
  --engines LIST      of weir,nginx,bare,unbuffered,forwarder,threescale,batcher (default:
                      weir,nginx,forwarder; with --chain weir,bare; with
                      --threescale batcher,threescale,bare)
  --threescale        3scale products in weir
  --chain             key-auth + limit-count + prometheus + proxy-rewrite in weir
  --answer BYTES      size of the origin's answers (default 75, from memory)
  --upload BYTES      POST bodies of that size; the origin answers once it has all
  --rounds N          rounds, alternately forward and backward (default 6)
  --seconds N         length of a round of one engine (default 4)
  --connections N     keep-alive connections of wrk (default 64)
  --consumers N       key-auth consumers (default 50000)
  --weir PATH         binary to measure (default: built from this checkout)
  --json              print JSON instead of tables
TEXT
}

engines= chain= threescale= answer= upload= rounds=6 seconds=4 connections=64 consumers=50000 weir= json=
while [ $# -gt 0 ]; do
  case $1 in
    --engines) engines=$2; shift 2 ;;
    --chain) chain=1; shift ;;
    --threescale) threescale=1; shift ;;
    --answer) answer=$2; shift 2 ;;
    --upload) upload=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --connections) connections=$2; shift 2 ;;
    --consumers) consumers=$2; shift 2 ;;
    --weir) weir=$(realpath "$2"); shift 2 ;;
    --json) json=1; shift ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
if [ -z "$engines" ]; then
  engines=weir,nginx,forwarder
  [ -z "$chain" ] || engines=weir,bare
  [ -z "$threescale" ] || engines=batcher,threescale,bare
fi
IFS=, read -ra engine_list <<<"$engines"

say() { echo "$*" >&2; }
die() { say "bench/proxy.sh: $*"; exit 1; }

for tool in nginx wrk curl taskset; do
  PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null ||
    die "$tool is missing: apt-get install nginx-core wrk curl util-linux"
done
PATH=$PATH:/usr/sbin
[ "$(nproc)" -ge 2 ] || die "needs two cores: one for the gateway, one for wrk and the upstream"

path=/bench/consumers
serve="return 200 '{\"message\":\"seventy-five bytes of an answer from the origin, no more ...\"}\\\\n';"
plugins=key-auth
[ -z "$chain" ] || plugins="key-auth, limit-count, prometheus, proxy-rewrite"
[ -z "$threescale" ] || plugins="headers x3, logging, headers x2, apicast"
dir=$(mktemp -d)
chmod 711 "$dir" # nginx works as another user
declare -A pid=() port=() metrics=()

# Only what was started here is stopped, by its process id.
cleanup() {
  trap - EXIT INT TERM
  for p in "${pid[@]}"; do kill "$p" 2>/dev/null || true; done
  for p in "${pid[@]}"; do
    for _ in $(seq 100); do kill -0 "$p" 2>/dev/null || break; sleep 0.05; done
    kill -9 "$p" 2>/dev/null || true
  done
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# free_port sets $free to a loopback port that nothing accepts on, below the
# range from which the kernel takes ports for outgoing connections.
next_port=$((20000 + $$ % 10000))
free_port() {
  next_port=$((next_port + 1))
  while (exec 3<>"/dev/tcp/127.0.0.1/$next_port") 2>/dev/null; do
    next_port=$((next_port + 1))
  done
  free=$next_port
}

# await URL WHAT LOG: until URL answers with any status.
await() {
  for _ in $(seq 600); do
    curl -s -o /dev/null --max-time 2 "$1" && return
    sleep 0.1
  done
  tail -20 "$3" >&2
  die "$2 does not answer at $1"
}

fill() { # TEMPLATE DIR LISTEN UPSTREAM
  mkdir -p "$2"
  sed -e "s|@DIR@|$2|g" -e "s|@SERVE@|$serve|g" -e "s|@MORE@|${more:-}|g" -e "s|@LISTEN@|$3|g" -e "s|@UPSTREAM@|$4|g" -e "s|@PATH@|$path|g" "$1" >"$2/nginx.conf"
}

start_origin() {
  free_port; origin=127.0.0.1:$free
  if [ -n "$answer" ]; then
    mkdir -p "$dir/origin"
    head -c "$answer" /dev/zero | tr '\0' x >"$dir/origin/answer"
    serve="rewrite ^ /answer break; root $dir/origin;"
  elif [ -n "$upload" ]; then
    serve="rewrite ^ /end break; proxy_pass http://$origin; proxy_pass_request_body off; proxy_set_header Content-Length '';"
  fi
  fill bench/origin.conf.tmpl "$dir/origin" "$origin" ""
  taskset -c 1 nginx -p "$dir/origin" -c "$dir/origin/nginx.conf" 2>"$dir/origin.log" &
  pid[origin]=$!
  await "http://$origin/" "the origin" "$dir/origin.log"
}

start_nginx() {
  fill bench/nginx.conf.tmpl "$dir/nginx" "127.0.0.1:${port[nginx]}" "$origin"
  awk '{printf "\"%s\" \"%s\";\n", $2, $1}' "$dir/consumers" >"$dir/nginx/keys.map"
  taskset -c 0 nginx -p "$dir/nginx" -c "$dir/nginx/nginx.conf" 2>"$dir/nginx.log" &
  pid[nginx]=$!
}

start_bare() { start_plain bare ""; }

start_unbuffered() { start_plain unbuffered "proxy_buffering off; proxy_request_buffering off;"; }

start_plain() { # ENGINE SETTINGS
  more=$2 fill bench/bare.conf.tmpl "$dir/$1" "127.0.0.1:${port[$1]}" "$origin"
  taskset -c 0 nginx -p "$dir/$1" -c "$dir/$1/nginx.conf" 2>"$dir/$1.log" &
  pid[$1]=$!
}

start_forwarder() {
  go build -o "$dir/forwarder.bin" ./bench/forwarder
  GOMAXPROCS=1 taskset -c 0 "$dir/forwarder.bin" "127.0.0.1:${port[forwarder]}" "$origin" 2>"$dir/forwarder.log" &
  pid[forwarder]=$!
}

build_weir() {
  if [ -z "$weir" ]; then
    weir=$dir/weir.bin
    go build -o "$weir" ./cmd/weir
  fi
}

start_threescale() { start_products threescale; }
start_batcher() { start_products batcher --batcher; }

# start_products ENGINE [FLAG]: weir with one 3scale product.
start_products() {
  local engine=$1
  shift
  build_weir
  mkdir -p "$dir/$engine"
  "$weir" bench products --hostname bench.test --key-header apikey --upstream "http://$origin" --backend "http://$origin" \
    --out "$dir/$engine/products.json" "$@"
  free_port; metrics[$engine]=$free
  (cd "$dir/$engine" && APICAST_HTTP_PORT=${port[$engine]} APICAST_MANAGEMENT_PORT=0 APICAST_METRICS_PORT=$free APICAST_ACCESS_LOG_FILE=/dev/null \
    APICAST_CONFIGURATION_LOADER=boot APICAST_CONFIGURATION_CACHE=-1 \
    GOMAXPROCS=1 exec taskset -c 0 "$weir" run --apicast="$dir/$engine/products.json") >"$dir/$engine.log" 2>&1 &
  pid[$engine]=$!
}

start_weir() {
  build_weir
  free_port; local admin=$free
  free_port; local store=$free
  mkdir -p "$dir/weir"
  cat >"$dir/weir/config.yaml" <<YAML
apisix:
  node_listen:
    - ip: 127.0.0.1
      port: ${port[weir]}
  enable_ipv6: false
  enable_control: false
  ssl:
    enable: false
  data_encryption:
    enable_encrypt_fields: false
nginx_config:
  http:
    enable_access_log: false
    upstream:
      keepalive_requests: 1000000000
plugin_attr:
  prometheus:
    enable_export_server: false
deployment:
  role: traditional
  role_traditional:
    config_provider: etcd
  admin:
    admin_key:
      - name: admin
        key: bench-proxy-admin
        role: admin
    admin_listen:
      ip: 127.0.0.1
      port: $admin
weir:
  store:
    dir: $dir/weir/data
    listen: 127.0.0.1:$store
YAML
  (cd "$dir/weir" && GOMAXPROCS=1 exec taskset -c 0 "$weir" run -c "$dir/weir/config.yaml") >"$dir/weir.log" 2>&1 &
  pid[weir]=$!
  await "http://127.0.0.1:${port[weir]}/" weir "$dir/weir.log"
  "$weir" bench load --etcd "http://127.0.0.1:$store" --upstream "$origin" --from "$dir/consumers"
  [ -z "$chain" ] || chain_plugins "http://127.0.0.1:$admin"
}

# chain_plugins ADMIN: gives the route the rest of the chain. The limit is never
# reached; the origin answers any path.
chain_plugins() {
  local conf='{"plugins":{"limit-count":{"count":1000000000,"time_window":3600,"key":"consumer_name"},
    "prometheus":{},"proxy-rewrite":{"uri":"/rewritten","headers":{"set":{"X-Gateway":"weir"}}}}}'
  curl -sf -o "$dir/weir/patch.json" -X PATCH -H 'X-API-KEY: bench-proxy-admin' -d "$conf" \
    "$1/apisix/admin/routes/bench_consumers" || die "weir refused the plugins: $(cat "$dir/weir/patch.json")"
}

# check ENGINE: the responses are right, else there is nothing to measure.
check() {
  local url=http://127.0.0.1:${port[$1]}$path status body name key
  read -r name key < <(tail -1 "$dir/consumers")
  for _ in $(seq 300); do # the last consumer may still be on its way
    status=$(curl -s -o /dev/null -w '%{http_code}' -H "apikey: $key" -H 'Host: bench.test' "$url" || true)
    [ "$status" = 200 ] && break
    sleep 0.1
  done
  [ "$status" = 200 ] || { tail -20 "$dir/$1.log" >&2; die "$1: status $status with a key, want 200"; }
  case $1 in
    forwarder|bare|unbuffered) return ;;
    threescale|batcher) check_products "$1" "$url" "$key"; return ;;
  esac
  if [ -n "$chain" ] && [ "$1" = weir ]; then
    curl -s -D - -o /dev/null -H "apikey: $key" "$url" | grep -qi '^x-ratelimit-remaining: ' || die "weir: limit-count does not count"
  fi
  status=$(curl -s -o /dev/null -w '%{http_code}' "$url")
  [ "$status" = 401 ] || die "$1: status $status without a key, want 401"
  body=$(curl -s -H "apikey: $key" -H 'Host: bench.test' "$url?check=1")
  case $body in
    "user=$name ip=127.0.0.1 for=127.0.0.1 proto=http host=bench.test port="[0-9]*) ;;
    *) die "$1: the upstream got: $body" ;;
  esac
}

# check_products ENGINE URL KEY: every policy of the chain does its part.
check_products() {
  local head status
  head=$(curl -s -D - -o /dev/null -H "apikey: $3" -H 'Host: bench.test' "$2" | tr -d '\r')
  for header in 'X-Bench-Version: 0' 'X-Frame-Options: DENY' 'X-Content-Type-Options: nosniff'; do
    grep -qix "$header" <<<"$head" || die "$1: no $header in: $head"
  done
  status=$(curl -s -o /dev/null -w '%{http_code}' -H 'Host: bench.test' "$2")
  [ "$status" = 403 ] || die "$1: status $status without a key, want 403"
}

# check_reports ENGINE: every request was reported; what is lost costs nothing.
check_reports() {
  local calls lost
  sleep 1 # for what is under way
  read -r calls lost < <(curl -s "http://127.0.0.1:${metrics[$1]}/metrics" |
    awk '$1 ~ /^threescale_backend_calls/ {calls += $2} $1 ~ /^threescale_lost_reports/ {lost += $2} END {print calls + 0, lost + 0}')
  [ "$calls" -gt 0 ] || die "$1: the backend was not called"
  [ "$lost" = 0 ] || die "$1: $lost reports to the backend found no room: the figures are not those of all the work"
}

# cpu ENGINE: "user sys" in clock ticks, of the process and its children.
cpu() {
  local main=${pid[$1]} p
  for p in $main $(cat "/proc/$main/task/$main/children" 2>/dev/null); do
    sed 's/.*) //' "/proc/$p/stat" 2>/dev/null
  done | awk '{u += $12; s += $13} END {print u + 0, s + 0}'
}

# measure ENGINE ROUND SECONDS: appends a row to $dir/rows.
measure() {
  local before after result
  before=$(cpu "$1")
  result=$(BENCH_KEYS=$dir/keys BENCH_PATH=$path BENCH_UPLOAD=$upload taskset -c 1 wrk -t1 -c"$connections" -d"$3s" \
    -s bench/wrk.lua "http://127.0.0.1:${port[$1]}" | sed -n 's/^RESULT //p')
  after=$(cpu "$1")
  [ -n "$result" ] || die "$1: wrk printed no result"
  [ "${result%% *}" -gt 0 ] || die "$1: no request was answered"
  # engine round requests micros non2xx errors p50 p99 user sys
  echo "$1 $2 $result $before $after" |
    awk -v hz="$(getconf CLK_TCK)" '{print $1, $2, $3, $4, $5, $6, $7, $8, ($11 - $9) / hz * 1e6, ($12 - $10) / hz * 1e6}' >>"$dir/rows"
}

report() {
  awk -v json="$json" -v order="${engine_list[*]}" -v plugins="$plugins" -v consumers="$consumers" -v seconds="$seconds" \
    -v connections="$connections" -f bench/proxy.awk "$dir/rows"
}

awk -v n="$consumers" 'BEGIN {srand(1); for (i = 0; i < n; i++)
  printf "bench_%d key-%08x%08x%07x\n", i, rand() * 4294967296, rand() * 4294967296, i}' >"$dir/consumers"
# 512 keys from all over the list.
awk -v n="$consumers" 'BEGIN {step = n > 512 ? n / 512 : 1} NR - 1 >= want && picked < 512 {print $2; picked++; want += step}' \
  "$dir/consumers" >"$dir/keys"

start_origin
for e in "${engine_list[@]}"; do
  case $e in weir|nginx|bare|unbuffered|forwarder|threescale|batcher) ;; *) die "no engine named $e" ;; esac
  free_port; port[$e]=$free
  "start_$e"
  await "http://127.0.0.1:${port[$e]}/" "$e" "$dir/$e.log"
  check "$e"
  say "$e: responses are right"
done
for e in "${engine_list[@]}"; do measure "$e" 0 1; done # warm-up, not reported
: >"$dir/rows"
for r in $(seq "$rounds"); do
  for ((i = 0; i < ${#engine_list[@]}; i++)); do
    e=${engine_list[i]}
    [ $((r % 2)) -eq 1 ] || e=${engine_list[${#engine_list[@]} - 1 - i]}
    measure "$e" "$r" "$seconds"
    [ -n "$json" ] || awk 'END {printf "round %d  %-9s  %6.2f us/request  %7.0f requests/s\n", $2, $1, ($9 + $10) / $3, $3 / $4 * 1e6}' "$dir/rows" >&2
  done
done
for e in "${!metrics[@]}"; do check_reports "$e"; done
report
