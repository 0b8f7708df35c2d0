package threescale

import (
	"bytes"
	"encoding/base64"
	"strings"

	"weir/internal/expr"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/wire"
)

// Credentials are what a caller has shown. What is empty is missing, unless the
// caller has shown it as empty.
type Credentials struct {
	UserKey, AppID, AppKey, AccessToken string

	shown shown
}

// shown are the members that the caller has given, empty or not.
type shown uint8

const (
	showsUserKey shown = 1 << iota
	showsAppID
	showsAppKey
	showsToken
)

// None says that the caller has shown nothing.
func (c *Credentials) None() bool { return *c == Credentials{} }

// has says which members are there.
func (c *Credentials) has() shown {
	has := c.shown
	for i, v := range [...]string{c.UserKey, c.AppID, c.AppKey, c.AccessToken} {
		if v != "" {
			has |= 1 << i
		}
	}
	return has
}

// The versions of the backend, which are ways to authenticate.
const (
	userKey = "1"
	appKey  = "2"
	oauth   = "oauth"
)

// Complete says that the credentials are those that the product asks for.
func (p *Product) Complete(c *Credentials) bool {
	want := showsToken
	switch p.BackendVersion {
	case userKey:
		want = showsUserKey
	case appKey:
		want = showsAppID | showsAppKey
	case oauth:
	default:
		return false
	}
	return c.has()&want == want
}

// A finder is where a product's callers show their credentials.
type finder struct {
	version, location             string
	userKey, appID, appKey, token named
}

// A named is a name as arguments have it and as headers do.
type named struct{ argument, header string }

func newNamed(name string) named {
	name = strings.ToLower(name)
	return named{name, strings.ReplaceAll(name, "-", "_")}
}

func newFinder(m *model.Product) finder {
	return finder{
		version: m.BackendVersion, location: m.CredentialsLocation,
		userKey: newNamed(m.UserKeyName), appID: newNamed(m.AppIDName), appKey: newNamed(m.AppKeyName), token: newNamed("access_token"),
	}
}

// FindCredentials returns what the caller has shown where the product looks for
// it (apicast.md §4.1).
func (r *Request) FindCredentials(c *plugin.Ctx) (found Credentials) {
	f := &r.Product.finder
	switch f.location {
	case "query", "headers":
		f.look(c, r, &found)
	case "authorization":
		f.authorization(c, &found)
	default:
		return found
	}
	if f.version == oauth && found.has()&showsToken == 0 { // RFC 6750 §2.1
		if scheme, param := authorizationOf(c); scheme == "Bearer" {
			found.show(showsToken, param)
		}
	}
	return found
}

// show notes a member.
func (c *Credentials) show(which shown, value string) {
	c.shown |= which
	switch which {
	case showsUserKey:
		c.UserKey = value
	case showsAppID:
		c.AppID = value
	case showsAppKey:
		c.AppKey = value
	case showsToken:
		c.AccessToken = value
	}
}

// look finds the members that have names.
func (f *finder) look(c *plugin.Ctx, r *Request, found *Credentials) {
	switch f.version {
	case userKey:
		f.member(c, r, found, showsUserKey, &f.userKey)
	case appKey:
		f.member(c, r, found, showsAppID, &f.appID)
		f.member(c, r, found, showsAppKey, &f.appKey)
	case oauth:
		f.member(c, r, found, showsToken, &f.token)
	}
}

func (f *finder) member(c *plugin.Ctx, r *Request, found *Credentials, which shown, name *named) {
	var value string
	var ok bool
	if f.location == "headers" {
		value, ok = headerLike(c, name.header)
	} else if value, ok = rawArgument(r.Query, name.argument); !ok {
		value, ok = firstArgument(r.Form(c), name.argument)
	}
	if ok {
		found.show(which, value)
	}
}

// authorization finds the members in the Authorization header.
func (f *finder) authorization(c *plugin.Ctx, found *Credentials) {
	scheme, param := authorizationOf(c)
	switch {
	case f.version == oauth:
	case scheme == "Bearer":
		if f.version == userKey {
			found.show(showsUserKey, param)
		} else {
			found.show(showsAppID, param)
		}
	case scheme == "Basic":
		user, password, ok := basic(c, param)
		switch {
		case !ok:
		case f.version == userKey:
			found.show(showsUserKey, user)
		default:
			found.show(showsAppID, user)
			found.show(showsAppKey, password)
		}
	}
}

// authorizationOf splits the Authorization header. Schemes are compared with their
// case (apicast.md §4.1).
func authorizationOf(c *plugin.Ctx) (scheme, param string) {
	value, _ := headerLike(c, "authorization")
	n := 0
	for n < len(value) && isAlphanumeric(value[n]) {
		n++
	}
	return value[:n], strings.TrimLeft(value[n:], " \t\r\n\v\f")
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

// basic takes a user's name and password apart, at the last colon.
func basic(c *plugin.Ctx, param string) (user, password string, ok bool) {
	param, _, _ = strings.Cut(param, "=")
	var stack [256]byte
	text, err := base64.RawStdEncoding.AppendDecode(stack[:0], []byte(param))
	if err != nil {
		return "", "", false
	}
	at := bytes.LastIndexByte(text, ':')
	if at < 0 {
		return "", "", false
	}
	both := c.Keep(text)
	return both[:at], both[at+1:], true
}

// headerLike is the first header of a name, in lower case and with "_" for "-",
// as nginx's $http_name finds it.
func headerLike(c *plugin.Ctx, name string) (string, bool) {
	fields := c.Request.Header.Fields()
	for i := range fields {
		if f := &fields[i]; !f.Dropped && len(f.Name) == len(name) && headerIs(f.Name, name) {
			return f.Value, true
		}
	}
	return "", false
}

func headerIs(field, name string) bool {
	for i := range len(name) {
		c := field[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case c == '-':
			c = '_'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

// rawArgument is an argument as nginx's $arg_name finds it: whatever the case of
// its name, and not decoded.
func rawArgument(query, name string) (value string, ok bool) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if key, v, has := strings.Cut(pair, "="); has && wire.EqualFold(key, name) {
			return v, true
		}
	}
	return "", false
}

// firstArgument is the decoded value of a form's first argument of that name.
func firstArgument(form, name string) (value string, ok bool) {
	for form != "" {
		var pair string
		pair, form, _ = strings.Cut(form, "&")
		if key, v, has := strings.Cut(pair, "="); has && expr.Unescape(key) == name {
			return expr.Unescape(v), true
		}
	}
	return "", false
}

// maxForm bounds the forms that are looked into (nginx's client_body_buffer_size);
// a longer one passes unread, as in APIcast.
const maxForm = 16 << 10

// Form is the request's body where that is a form that arguments are taken from
// (apicast.md §2.4); empty: it is none.
func (r *Request) Form(c *plugin.Ctx) string {
	if r.formRead {
		return r.form
	}
	r.formRead = true
	switch c.Request.Method {
	case "POST", "PUT", "PATCH":
	default:
		return ""
	}
	if c.Request.Proto > wire.HTTP11 || c.Request.Length == 0 || c.Request.Length > maxForm {
		return ""
	}
	if media, _ := c.Header("Content-Type"); !containsFold(media, "application/x-www-form-urlencoded") {
		return ""
	}
	body, err := c.Buffer.Body(maxForm)
	if err != nil {
		return ""
	}
	r.form = c.Keep(body)
	return r.form
}

func containsFold(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if wire.EqualFold(s[i:i+len(part)], part) {
			return true
		}
	}
	return false
}
