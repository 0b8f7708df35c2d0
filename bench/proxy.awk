# Makes the report of bench/proxy.sh from its rows:
# engine round requests micros non2xx errors p50 p99 user_us sys_us

function sort(a, n,    i, j, v) {
  for (i = 2; i <= n; i++) {
    v = a[i]
    for (j = i - 1; j >= 1 && a[j] > v; j--) a[j + 1] = a[j]
    a[j + 1] = v
  }
}

# median of column c of engine e, or of ratios when c is "ratio/OTHER".
function median(e, c,    n, a, r, other) {
  n = 0
  other = c
  if (sub(/^ratio\//, "", other)) {
    for (r = 1; r <= rounds; r++)
      if ((e, r, "cpu") in v && (other, r, "cpu") in v) a[++n] = v[e, r, "cpu"] / v[other, r, "cpu"]
  } else
    for (r = 1; r <= rounds; r++)
      if ((e, r, c) in v) a[++n] = v[e, r, c]
  if (n == 0) return -1
  sort(a, n)
  lowest = a[1]; highest = a[n]
  return (a[int((n + 1) / 2)] + a[int((n + 2) / 2)]) / 2
}

{
  rounds = $2 > rounds ? $2 : rounds
  v[$1, $2, "cpu"] = ($9 + $10) / $3
  v[$1, $2, "user"] = $9 / $3
  v[$1, $2, "sys"] = $10 / $3
  v[$1, $2, "rps"] = $3 / $4 * 1e6
  v[$1, $2, "p50"] = $7
  v[$1, $2, "p99"] = $8
  v[$1, $2, "util"] = ($9 + $10) / $4
  bad[$1] += $5
  errors[$1] += $6
}

END {
  n = split(order, engine, " ")
  if (json) printf "{\n  \"plugins\": \"%s\", \"consumers\": %d, \"connections\": %d, \"rounds\": %d, \"seconds\": %s,\n  \"engines\": {", plugins, consumers, connections, rounds, seconds
  else {
    printf "\n%s, %d consumers, %d connections, %d rounds of %s s, one core\n\n", plugins, consumers, connections, rounds, seconds
    printf "%-10s %14s %7s %7s %7s %10s %8s %8s %9s %8s\n", "engine", "CPU us/request", "min", "user", "sys", "requests/s", "core use", "p50 us", "non-2xx", "errors"
  }
  for (i = 1; i <= n; i++) {
    e = engine[i]
    cpu = median(e, "cpu"); min = lowest
    if (json)
      printf "%s\n    \"%s\": {\"cpu_us\": %.2f, \"cpu_us_min\": %.2f, \"user_us\": %.2f, \"sys_us\": %.2f, \"rps\": %.0f, \"core_use\": %.2f, \"p50_us\": %d, \"p99_us\": %d, \"non_2xx\": %d, \"errors\": %d}",
        (i > 1 ? "," : ""), e, cpu, min, median(e, "user"), median(e, "sys"), median(e, "rps"), median(e, "util"), median(e, "p50"), median(e, "p99"), bad[e], errors[e]
    else
      printf "%-10s %14.2f %7.2f %7.2f %7.2f %10.0f %8.2f %8d %9d %8d\n", e, cpu, min, median(e, "user"), median(e, "sys"), median(e, "rps"), median(e, "util"), median(e, "p50"), bad[e], errors[e]
  }
  if (json) printf "\n  },\n  \"ratios\": {"
  else print "\nCPU per request, paired by round: median (lowest to highest)"
  for (i = 1; i <= n; i++)
    for (j = i + 1; j <= n; j++) {
      ratio = median(engine[i], "ratio/" engine[j])
      if (json) printf "%s\n    \"%s/%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}", (shown++ ? "," : ""), engine[i], engine[j], ratio, lowest, highest
      else printf "%s/%s  %.3f (%.3f to %.3f)\n", engine[i], engine[j], ratio, lowest, highest
    }
  if (json) print "\n  }\n}"
}
