package engine

import (
	"strings"

	"weir/internal/wire"
)

// readPath normalises the target's path once, for matching and for variables,
// and settles what is forwarded: the target as received if normalising changed
// nothing but percent-encoding, else the normalised path. There are never two
// views of one path (DECISIONS, Path).
func (x *exchange) readPath() bool {
	raw, query, _ := strings.Cut(x.request.Target, "?")
	if raw == "*" {
		x.ctx.Path = raw
		return true
	}
	path, change, ok := wire.NormalizePath(x.path[:0], raw, wire.PathOptions{KeepSlashes: x.engine.KeepSlashes})
	if !ok {
		return false
	}
	x.ctx.Path = path
	if change&wire.ChangedSegments != 0 {
		x.target = wire.EscapePath(x.target[:0], path)
		if len(raw) < len(x.request.Target) {
			x.target = append(append(x.target, '?'), query...)
		}
		x.ctx.To.Target = view(x.target)
	}
	return true
}
