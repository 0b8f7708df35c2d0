package expr

import (
	"bytes"
	"strings"

	"weir/internal/document"
	"weir/internal/plugin"
	"weir/internal/wire"
)

// A parsedBody is what was made of one request's body so far. It lies in the
// Ctx, so that every body is parsed once, and is there for the log.
type parsedBody struct {
	form, args, graphql bool // whether the fields below were looked for

	formArgs *document.Value // post_arg_NAME; nil: none
	postArgs *document.Value // post_arg.PATH
	query    *graphqlQuery
}

// bodyKey finds the parsedBody in a Ctx.
type bodyKey struct{}

func bodyOf(c *plugin.Ctx) *parsedBody {
	if p, ok := c.State(bodyKey{}).(*parsedBody); ok {
		return p
	}
	p := new(parsedBody)
	c.SetState(bodyKey{}, p)
	return p
}

// maxValues bounds the values in a body that is parsed, because each takes some
// hundred bytes. They are counted by the characters between them, so that those
// inside of texts count, too.
const maxValues = 1 << 20

// read is the body if it has at most limit bytes (0: any number) and does not
// consist of too many values; nil otherwise and if there is none.
func read(c *plugin.Ctx, limit int64, separators string) []byte {
	if limit <= 0 {
		limit = 1 << 62
	}
	if c.Buffer == nil {
		return nil
	}
	body, err := c.Buffer.Body(limit)
	if err != nil {
		return nil
	}
	n := 0
	for i := range len(separators) {
		n += bytes.Count(body, []byte(separators[i:i+1]))
	}
	if n > maxValues {
		return nil
	}
	return body
}

func contentType(c *plugin.Ctx) string {
	t, _ := c.Header("content-type")
	return t
}

const urlencoded = "application/x-www-form-urlencoded"

// postArg is post_arg_NAME, of urlencoded forms alone.
func postArg(name string) Var {
	return Var{body: true, typed: func(c *plugin.Ctx, _ *[]byte) value {
		if !strings.HasPrefix(contentType(c), urlencoded) {
			return value{}
		}
		v := formOf(c).Get(name)
		if v.Is(document.Array) {
			v = v.Items[0]
		}
		return valueOf(v)
	}}
}

func formOf(c *plugin.Ctx) *document.Value {
	p := bodyOf(c)
	if !p.form {
		p.form = true
		p.formArgs = ParseForm(read(c, c.Limits.PostArgs, "&"))
	}
	return p.formArgs
}

// ParseForm decodes pairs joined by "&". A name without "=" is true, one that
// comes several times an array.
func ParseForm(body []byte) *document.Value {
	form := document.NewObject()
	places := map[string]int{}
	for rest := string(body); rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		k, v, assigned := strings.Cut(pair, "=")
		name := Unescape(k)
		if name == "" {
			continue
		}
		item := &document.Value{Kind: document.Bool, Text: "true"}
		if assigned {
			item = document.NewString(Unescape(v))
		}
		at, have := places[name]
		if !have {
			places[name] = len(form.Members)
			form.Members = append(form.Members, document.Member{Name: name, Value: item})
			continue
		}
		m := &form.Members[at]
		if m.Value.Kind != document.Array {
			m.Value = &document.Value{Kind: document.Array, Items: []*document.Value{m.Value}}
		}
		m.Value.Items = append(m.Value.Items, item)
	}
	return form
}

// Unescape decodes %XX and "+", as in arguments; what is not a valid escape stays as
// it is.
func Unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	return string(appendUnescaped(make([]byte, 0, len(s)), s))
}

// appendUnescaped decodes %XX and "+"; what is not a valid escape stays as it is.
func appendUnescaped(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0:
			c = byte(hexDigit(s[i+1])<<4 | hexDigit(s[i+2]))
			i += 2
		}
		dst = append(dst, c)
	}
	return dst
}

// postPath is post_arg.PATH: a value in a JSON, urlencoded or multipart body.
// PATH is a list of members with dots between, or a JSONPath, whose value is an
// array, if it has "[", "*" or "..".
func postPath(path string) (Var, error) {
	if strings.ContainsAny(path, "[*") || strings.Contains(path, "..") {
		jp, err := compileJSONPath(path)
		if err != nil {
			return Var{}, err
		}
		return Var{body: true, typed: func(c *plugin.Ctx, _ *[]byte) value {
			args := argsOf(c)
			if !args.Is(document.Array) && !args.Is(document.Object) {
				return value{}
			}
			found := jp.find(args)
			if len(found) == 0 {
				return value{}
			}
			return value{kind: tree, tree: &document.Value{Kind: document.Array, Items: found}}
		}}, nil
	}
	members := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("(.)", r) })
	return Var{body: true, typed: func(c *plugin.Ctx, _ *[]byte) value {
		v := argsOf(c)
		for _, m := range members {
			v = v.Get(m)
		}
		return valueOf(v)
	}}, nil
}

// argsOf is the body by its content type; nil if that is another or the body
// not valid.
func argsOf(c *plugin.Ctx) *document.Value {
	p := bodyOf(c)
	if p.args {
		return p.postArgs
	}
	p.args = true
	limit := c.Limits.PostArgs
	switch t := contentType(c); {
	case strings.Contains(t, "application/json"):
		p.postArgs, _ = document.Parse(read(c, limit, ",[{"))
	case strings.Contains(t, urlencoded):
		p.postArgs = formOf(c)
	case strings.Contains(t, "multipart/form-data"):
		p.postArgs = parseMultipart(read(c, limit, ""), boundaryOf(t))
	}
	return p.postArgs
}

// boundaryOf is the parameter of a multipart content type (RFC 2046 §5.1.1).
func boundaryOf(contentType string) string {
	for _, param := range strings.Split(contentType, ";")[1:] {
		name, v, _ := strings.Cut(strings.TrimSpace(param), "=")
		if wire.EqualFold(name, "boundary") {
			v, _, _ = strings.Cut(v, " ")
			return unquote(v)
		}
	}
	return ""
}

func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// parseMultipart reads the parts of a form (RFC 7578): the first of a name
// counts. Lines may end with a line feed alone. What follows an unfinished last
// part counts as its value.
func parseMultipart(body []byte, boundary string) *document.Value {
	form := document.NewObject()
	if boundary == "" {
		return form
	}
	seen := map[string]bool{}
	delimiter := []byte("--" + boundary)
	for {
		part, rest, more := nextPart(body, delimiter)
		if name, v, ok := formField(part); ok && !seen[name] {
			seen[name] = true
			form.Members = append(form.Members, document.Member{Name: name, Value: document.NewString(string(v))})
		}
		if !more || len(form.Members) > maxValues {
			return form
		}
		body = rest
	}
}

// nextPart cuts body at the next line that begins with the delimiter.
func nextPart(body, delimiter []byte) (part, rest []byte, more bool) {
	for from := 0; ; {
		i := bytes.Index(body[from:], delimiter)
		if i < 0 {
			return body, nil, false
		}
		i += from
		if i == 0 || body[i-1] == '\n' {
			_, rest, more = bytes.Cut(body[i:], []byte("\n"))
			return body[:i], rest, more
		}
		from = i + 1
	}
}

// formField takes a part apart; it is one of the form's only if it has a name.
func formField(part []byte) (name string, content []byte, ok bool) {
	for {
		line, rest, more := bytes.Cut(part, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			rest = bytes.TrimSuffix(rest, []byte("\n"))
			return name, bytes.TrimSuffix(rest, []byte("\r")), ok && more
		}
		if !more {
			return "", nil, false
		}
		part = rest
		header, params, _ := strings.Cut(string(line), ":")
		if !wire.EqualFold(strings.TrimSpace(header), "content-disposition") {
			continue
		}
		for _, param := range strings.Split(params, ";") {
			k, v, _ := strings.Cut(strings.TrimSpace(param), "=")
			if wire.EqualFold(k, "name") {
				name, ok = unquote(strings.TrimSpace(v)), true
			}
		}
	}
}
