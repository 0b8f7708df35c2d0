package engine

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

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

// pages are the gateway's error pages, in the shape of nginx's.
var pages = makePages(400, 403, 404, 408, 413, 417, 431, 499, 500, 502, 503, 504)

func makePages(codes ...int) map[int]*plugin.Reply {
	m := map[int]*plugin.Reply{}
	for _, code := range codes {
		title := strconv.Itoa(code) + " " + wire.Reason(code)
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
		x.closeAfter = x.closeAfter || status == 400 || status == 408 || status == 431
		x.answer(pages[status])
	}
}

// answer sends a reply in place of the upstream's, through the response phases.
func (x *exchange) answer(r *plugin.Reply) {
	x.local.Reset()
	x.local.Status = r.Status
	x.local.Length = int64(len(r.Body))
	h := &x.local.Header
	h.Add("Date", x.engine.date.get())
	typed := false
	for _, f := range r.Header {
		h.Add(f[0], f[1])
		typed = typed || wire.EqualFold(f[0], "Content-Type")
	}
	if !typed && len(r.Body) > 0 {
		h.Add("Content-Type", textType)
	}
	if x.request.Method == "HEAD" {
		h.Add("Content-Length", strconv.Itoa(len(r.Body)))
	}
	x.head(&x.local)
	x.cut(x.stream.WriteHead(&x.local, x.filter(r.Body, true), true))
}

// head gives a response the gateway's own headers and runs the Header phase.
func (x *exchange) head(r *wire.Response) {
	x.ctx.Response = r
	r.Header.Add("Server", x.engine.Server)
	for _, f := range x.ctx.ReplyHeader() {
		r.Header.Set(f[0], f[1])
	}
	x.run.Header(&x.ctx)
	x.openFilters()
	x.ctx.Sent.Status = r.Status
	x.answered = true
}

// openFilters asks the plan for body filters. A filtered body has another
// length than announced.
func (x *exchange) openFilters() {
	x.filters = x.run.OpenBody(x.filters, &x.ctx)
	if len(x.filters) > 0 && x.ctx.Response.Length >= 0 {
		x.ctx.Response.Length = wire.Chunked
	}
}

// filter passes a piece of the body through the filters.
func (x *exchange) filter(p []byte, last bool) []byte {
	for _, f := range x.filters {
		p = f.Write(p, last)
	}
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

// Body implements plugin.Bufferer.
func (x *exchange) Body(limit int64) ([]byte, error) {
	if x.buffered != nil || x.request.Length == 0 {
		return x.buffered, nil
	}
	if err := x.upload.want(); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(x.upload.Reader, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, plugin.ErrBodyTooLarge
	}
	x.buffered = b
	return b, nil
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
