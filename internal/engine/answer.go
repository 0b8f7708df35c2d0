package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"weir/internal/plan"
	"weir/internal/plugin"
	"weir/internal/upstream"
	"weir/internal/wire"
)

// Why the gateway itself refuses; for the log.
var (
	errBodyTooLarge = errors.New("request body exceeds client_max_body_size")
	errPanic        = errors.New("panic")
)

// textType and htmlType are the content types of the gateway's own answers.
const (
	textType = "text/plain; charset=utf-8"
	htmlType = "text/html; charset=utf-8"
)

// notFound answers a request that no route matches (APISIX's words).
var notFound = plugin.JSON(404, struct {
	Msg string `json:"error_msg"`
}{"404 Route Not Found"})

// pages are the gateway's own pages for redirects and errors, in the shape of
// nginx's (ngx_http_special_response.c) and for the statuses that have one there,
// and for 417, 431 and 499.
var pages = makePages(301, 302, 303, 307, 308,
	400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 429, 431, 499,
	500, 501, 502, 503, 504, 505, 507)

// titles are where nginx's page has another title than its status line.
var titles = map[int]string{302: "Found", 401: "Authorization Required"}

func makePages(codes ...int) map[int]*plugin.Reply {
	m := map[int]*plugin.Reply{}
	for _, code := range codes {
		title := strconv.Itoa(code) + " " + cmp.Or(titles[code], wire.Reason(code))
		body := fmt.Sprintf("<html>\r\n<head><title>%[1]s</title></head>\r\n<body>\r\n"+
			"<center><h1>%[1]s</h1></center>\r\n<hr><center>Weir</center>\r\n</body>\r\n</html>\r\n", title)
		m[code] = plugin.Text(code, body, [2]string{"Content-Type", htmlType})
	}
	return m
}

// fail answers with an error page and remembers the cause for the log.
func (x *exchange) fail(status int, cause error) {
	x.ctx.Sent.Cause = cause
	switch {
	case x.answered:
		x.broken, x.closeAfter = true, true
	default:
		x.closeAfter = x.closeAfter || status == 400 || status == 408 || status == 414 || status == 431
		x.answer(pages[status])
	}
}

// answer sends a reply in place of the upstream's, through the response phases.
func (x *exchange) answer(r *plugin.Reply) {
	body, contentType := r.Body, textType
	if page := pages[r.Status]; body == nil && page != nil {
		body, contentType = page.Body, htmlType
	}
	x.local.Reset()
	x.local.Status = r.Status
	x.local.Length = int64(len(body))
	if r.Stream != nil {
		x.local.Length = wire.Chunked
	}
	h := &x.local.Header
	h.AddValid("Date", x.engine.clock.Date())
	typed := false
	for _, f := range r.Header {
		h.Add(f[0], f[1])
		typed = typed || wire.EqualFold(f[0], "Content-Type")
	}
	if !typed && len(body) > 0 {
		h.AddValid("Content-Type", contentType)
	}
	x.head(&x.local)
	if r.Stream != nil {
		x.cut(x.produce(r.Stream))
		return
	}
	body = x.filter(body, true)
	if x.request.Method == "HEAD" {
		h.AddValid("Content-Length", strconv.Itoa(len(body)))
	}
	x.cut(x.stream.WriteHead(&x.local, body, true))
}

// produce sends the head of a local answer, then its body as it is written.
func (x *exchange) produce(body func(io.Writer) error) error {
	none := bodiless(x.request.Method, x.local.Status)
	if err := x.stream.WriteHead(&x.local, x.filter(nil, none), none); err != nil || none {
		return err
	}
	x.detach()
	if err := body((*producer)(x)); err != nil {
		return err
	}
	return x.stream.Write(x.filter(nil, true), true)
}

// A producer is the exchange as what writes its answer's body sees it.
type producer exchange

// Write implements io.Writer.
func (p *producer) Write(piece []byte) (int, error) {
	x := (*exchange)(p)
	if err := x.stream.Write(x.filter(piece, false), false); err != nil {
		return 0, err
	}
	return len(piece), nil
}

// head gives a response the gateway's own headers and runs the Header phase.
func (x *exchange) head(r *wire.Response) {
	x.ctx.Response = r
	r.Header.AddValid("Server", x.engine.Server)
	for _, f := range x.ctx.ReplyHeader() {
		r.Header.Set(f[0], f[1])
	}
	x.run.Header(&x.ctx)
	x.openFilters()
	dropFramingOf(r.Header.Added())
	x.ctx.Sent.Status = r.Status
	x.answered = true
}

// dropFramingOf drops what a plugin has said about the connection and the
// body's end: a second length would let responses be smuggled.
func dropFramingOf(added []wire.Field) {
	for i := range added {
		f := &added[i]
		for _, own := range [...]string{"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive"} {
			f.Dropped = f.Dropped || wire.EqualFold(f.Name, own)
		}
	}
}

// openFilters asks the plan for body filters, then for encodings of the result.
// A filtered body has another length than announced.
func (x *exchange) openFilters() {
	x.filters = x.run.OpenBody(x.filters, &x.ctx)
	x.resize(0)
	before := len(x.filters)
	x.filters = x.run.OpenEncode(x.filters, &x.ctx)
	x.resize(before)
}

// resize makes the response's length what the filters from that one on make of it.
func (x *exchange) resize(from int) {
	r := x.ctx.Response
	for _, f := range x.filters[from:] {
		n := wire.Chunked
		if s, ok := f.BodyFilter.(plugin.Sized); ok {
			n = max(s.Size(r.Length), n)
		}
		r.Length = n
		r.Header.Del("Content-Length") // of a HEAD or a 304
	}
}

// ended says that a filter needs nothing of the upstream's body.
func (x *exchange) ended() bool {
	for _, f := range x.filters {
		if e, ok := f.BodyFilter.(plugin.Ender); ok && e.Ended() {
			return true
		}
	}
	return false
}

// watched says that a filter wants to see a body that the client does not get.
func (x *exchange) watched() bool {
	for _, f := range x.filters {
		if w, ok := f.BodyFilter.(plugin.Witness); ok && w.Watches() {
			return true
		}
	}
	return false
}

// closeFilters ends the filters, whether they have seen the end or not.
func (x *exchange) closeFilters() {
	for i := range x.filters {
		if c, ok := x.filters[i].BodyFilter.(interface{ Close() }); ok {
			x.closeFilter(c, x.filters[i].Step)
		}
	}
	clear(x.filters)
	x.filters = x.filters[:0]
}

// closeFilter closes one. If that panics, the others and the gateway go on.
func (x *exchange) closeFilter(c interface{ Close() }, s *plan.Step) {
	defer x.survive("a body filter panicked at its end")
	x.run.Enter(s)
	c.Close()
	x.run.Enter(nil)
}

// filter passes a piece of the body through the filters.
func (x *exchange) filter(p []byte, last bool) []byte {
	for i := range x.filters {
		x.run.Enter(x.filters[i].Step)
		p = x.filters[i].Write(p, last)
	}
	x.run.Enter(nil)
	return p
}

// cut notes that the answer did not reach the client whole.
func (x *exchange) cut(err error) {
	if err != nil {
		x.broken, x.closeAfter = true, true
		if x.ctx.Sent.Cause == nil {
			x.ctx.Sent.Cause = err
		}
	}
}

// maxBody is the limit of the request's body; not above 0: there is none.
func (x *exchange) maxBody() int64 {
	if x.ctx.MaxBody != 0 {
		return x.ctx.MaxBody
	}
	return x.engine.MaxBody
}

// logFailure writes one line for what the operator should know; a client that
// left is not news.
func (x *exchange) logFailure() {
	cause := x.ctx.Sent.Cause
	if cause == nil {
		return
	}
	var up *upstream.Error
	if errors.As(cause, &up) && up.Kind == upstream.Aborted {
		return
	}
	x.engine.Log.Warn("request failed", "route", x.routeID(), "client", x.ctx.Client,
		"method", strings.Clone(x.request.Method), "path", strings.Clone(x.ctx.Path),
		"status", x.ctx.Sent.Status, "err", cause)
}

func (x *exchange) routeID() string {
	if x.route == nil {
		return ""
	}
	return x.route.ID
}
