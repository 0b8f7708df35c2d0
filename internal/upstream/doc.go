// Package upstream reaches the nodes of an upstream: it chooses one, keeps
// connections to it, sends one request and streams the answer, and tries
// another node when that is safe.
//
// Three kinds of values share the work. Pools hold the idle connections of the
// whole process, by node. An Upstream is the compiled form of one
// configuration; it is replaced, never changed, and borrows its nodes' pools.
// A Call is one request on its way; it is reused for the next.
package upstream
