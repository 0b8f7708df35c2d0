#!/usr/bin/env bash
# Do `weir profile` and `weir bench ab` find a plugin that is slow on purpose? The
# binary under test has more plugins than a released one (-tags planted). One hashes
# in four phases of a request, beside key-auth, limit-count, prometheus and
# proxy-rewrite: so often that it takes SHARE per cent of a request's CPU. What it
# takes in truth is timed where it happens, by two plugins that run directly before
# and after it in one request of 64, in the gateways that are measured: the time
# between them, less that in the gateways without it.
#
#   1. rounds: a short comparison, with few rounds, gives CPU and time per call
#   2. weir profile of the gateway under load names planted first
#   3. weir bench ab sizes it; the truth has to be within a fifth of that
#
# usage: bench/planted.sh WEIR [PAIRS [STARTS [SHARE]]]   (default: 560 40 5)
set -euo pipefail
cd "$(dirname "$0")/.."
weir=$(realpath "$1") pairs=${2:-560} starts=${3:-40} share=${4:-5}
dir=$(mktemp -d)
chmod 711 "$dir" # nginx works as another user
PATH=$PATH:/usr/sbin
pids=()

# Only what was started here is stopped, by its process id.
cleanup() {
  trap - EXIT INT TERM
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

die() { echo "bench/planted.sh: $*" >&2; exit 1; }

for tool in nginx wrk curl jq taskset; do
  command -v "$tool" >/dev/null || die "$tool is missing: apt-get install nginx-core wrk curl jq util-linux"
done
[ "$(nproc)" -ge 2 ] || die "needs two cores: one for the gateway, one for load and upstream"

# rules UPSTREAM PLUGINS: the objects of the gateway, with more plugins.
rules() {
  cat <<YAML
routes:
  - id: bench
    uri: /bench
    plugins: {key-auth: {}, limit-count: {count: 1000000000, time_window: 3600, key: consumer_name}, prometheus: {},
      proxy-rewrite: {uri: /rewritten, headers: {set: {X-Gateway: weir}}}, $2}
    upstream: {type: roundrobin, nodes: {"$1": 1}}
consumers:
  - username: bench
    plugins: {key-auth: {key: bench-key}}
#END
YAML
}

# ab PAIRS STARTS ROUNDS: compares with and without; result in $dir/ab.json.
ab() {
  rules '${{ORIGIN}}' "planted-before: {}, planted-after: {report: $dir/took}" >"$dir/base.yaml"
  rm -f "$dir/took"
  "$weir" bench ab --plugin planted --conf "{\"rounds\":$3}" --states off,complete --base "$dir/base.yaml" \
    --header 'apikey: bench-key' --pairs "$1" --phase 200ms --settle 50ms --starts "$2" --format json --out "$dir/ab.json" 2>"$dir/ab.log" ||
    { tail -20 "$dir/ab.log" >&2; die "weir bench ab failed"; }
  jq -e '[.sides[] | .unexpected + .errors] | add == 0' "$dir/ab.json" >/dev/null || die "requests failed: $(jq -c .sides "$dir/ab.json")"
  # Gateways are stopped, and say what they timed, in the order of the sides.
  [ "$(wc -l <"$dir/took")" = $((2 * $2)) ] || die "not every gateway has said what it timed"
  jq -e -s 'all(.timed > 0)' "$dir/took" >/dev/null || die "a gateway has timed nothing"
}

# truth prints nanoseconds that a call takes, and the per cent of a request that four
# calls are: medians of the starts, each with the CPU of its own requests.
truth() {
  jq -r --slurpfile took "$dir/took" '
    def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
    ($took | length / 2) as $starts | .sides[0].samples as $off | ($off | length) as $pairs |
    [range($starts) | . as $i | ($took[2 * $i + 1].mean_ns - $took[2 * $i].mean_ns) as $ns |
      $off[($pairs * $i / $starts | floor):($pairs * ($i + 1) / $starts | floor)] as $of |
      {ns: $ns, percent: (4 * $ns / 10 / (($of | map(.cpu_us * .rps) | add) / ($of | map(.rps) | add)))}] |
    "\(map(.ns) | median) \(map(.percent) | median)"' "$dir/ab.json"
}

probe=30
ab 40 4 $probe
read -r ns percent < <(truth)
rounds=$(awk -v probe=$probe -v want="$share" -v have="$percent" 'BEGIN {printf "%d", probe * want / have + 0.5}')
echo "a request takes $(jq '.sides[0].cpu_us * 100 | round / 100' "$dir/ab.json") µs of CPU without the plugin; $rounds rounds in each of four phases are about $share % of that"

# The gateway on core 0, load and upstream on core 1.
port=$((20000 + $$ % 10000))
mkdir -p "$dir/origin" "$dir/gateway"
sed -e "s|@DIR@|$dir/origin|g" -e "s|@SERVE@|return 200 'an answer from the origin';|" -e "s|@LISTEN@|127.0.0.1:$port|" \
  bench/origin.conf.tmpl >"$dir/origin/nginx.conf"
taskset -c 1 nginx -p "$dir/origin" -c "$dir/origin/nginx.conf" 2>"$dir/origin.log" &
pids+=($!)
rules "127.0.0.1:$port" "planted: {rounds: $rounds}" >"$dir/gateway/apisix.yaml"
cat >"$dir/gateway/config.yaml" <<YAML
apisix:
  node_listen: [{ip: 127.0.0.1, port: $((port + 1))}]
  enable_ipv6: false
  enable_admin: false
  control: {ip: 127.0.0.1, port: $((port + 2))}
  ssl: {enable: false}
nginx_config: {http: {enable_access_log: false}}
plugin_attr: {prometheus: {enable_export_server: false}}
deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}
YAML
GOMAXPROCS=1 taskset -c 0 "$weir" run -c "$dir/gateway/config.yaml" >"$dir/gateway.log" 2>&1 &
pids+=($!)
for _ in $(seq 100); do
  status=$(curl -s -o /dev/null -w '%{http_code}' -H 'apikey: bench-key' "http://127.0.0.1:$((port + 1))/bench" || true)
  [ "$status" = 200 ] && break
  sleep 0.1
done
[ "$status" = 200 ] || { tail -20 "$dir/gateway.log" >&2; die "the gateway answers $status, want 200"; }
taskset -c 1 wrk -t1 -c64 -d25s -H 'apikey: bench-key' "http://127.0.0.1:$((port + 1))/bench" >"$dir/wrk.log" &
pids+=($!)
sleep 2
taskset -c 1 "$weir" profile --control "http://127.0.0.1:$((port + 2))" --seconds 20 2>/dev/null >"$dir/profile"
echo; cat "$dir/profile"
first=$(awk '/calls\/request/ {getline; sub(/:.*/, ""); print $NF; exit}' "$dir/profile")
for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
wait
pids=()

ab "$pairs" "$starts" "$rounds"
read -r ns percent < <(truth)
echo "weir bench ab, $pairs pairs of 0.2 s, $starts starts:"
jq -r --argjson ns "$ns" --argjson truth "$percent" --arg first "$first" '
  def r: . * 100 | round / 100;
  .sides[0].cpu_us as $off | .comparisons[0].cpu as $e |
  (if $first == "planted" then "yes" else "no, it names \($first)" end) as $named |
  ($e.percent / $truth - 1 | 100 * . | r) as $apart |
  "named first by weir profile  \($named)",
  "truth                        \($truth | r) % of a request (4 x \($ns | r) ns; a request takes \($off | r) µs without)",
  "weir bench ab                \($e.percent | r) % (\($e.low_percent | r) to \($e.high_percent | r) %)",
  "apart                        \($apart) % of the truth (a fifth is allowed)",
  if $named == "yes" and ($apart | fabs) <= 20 then "found" else "MISSED" end' "$dir/ab.json" | tee "$dir/verdict"
grep -qx found "$dir/verdict"
