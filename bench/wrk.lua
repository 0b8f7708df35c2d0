-- Cycles through the keys in the file that $BENCH_KEYS names, one a line, with a
-- body of $BENCH_UPLOAD bytes if that is set, and
-- prints the totals as "requests microseconds non-2xx socket-errors p50 p99".

local requests, n, i = {}, 0, 0

function init()
  local upload = tonumber(os.getenv("BENCH_UPLOAD"))
  local body = upload and string.rep("x", upload)
  for key in io.lines(os.getenv("BENCH_KEYS")) do
    n = n + 1
    requests[n] = wrk.format(body and "POST" or "GET", os.getenv("BENCH_PATH"), { apikey = key, Host = "bench.test" }, body)
  end
end

function request()
  i = i % n + 1
  return requests[i]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d %d\n", summary.requests, summary.duration,
    e.status, e.connect + e.read + e.write + e.timeout, latency:percentile(50), latency:percentile(99)))
end
