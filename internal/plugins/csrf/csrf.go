// Package csrf admits requests that change something only with a token that no
// other site can read: in a cookie and, again, in a header.
package csrf

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"weir/internal/expr"
	"weir/internal/plugin"
)

// Plugin is csrf as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "csrf",
		Priority: 2980,
		Guard:    true,
		Doc:      "Refuses requests forged by another site, by a token in a cookie and in a header.",
	},
	compile,
)

// Config is the configuration.
type Config struct {
	Key     string `json:"key" schema:"required,secret" doc:"Secret that tokens are signed with."`
	Expires int64  `json:"expires" schema:"default=7200" doc:"Seconds for which a token is good; 0 and below: for ever."`
	Name    string `json:"name" schema:"default=apisix-csrf-token" doc:"Name of the cookie and of the header."`
}

func compile(c *Config, env plugin.Env) (plugin.Phases, error) {
	cookie, err := expr.Lookup("cookie_" + c.Name)
	if err != nil {
		return plugin.Phases{}, err
	}
	refuse := func(msg string) *plugin.Reply {
		return plugin.JSON(401, map[string]string{"error_msg": msg})
	}
	noHeader := refuse("no csrf token in headers")
	noCookie := refuse("no csrf cookie")
	mismatch := refuse("csrf token mismatch")
	invalid := refuse("Failed to verify the csrf token signature")

	access := func(r *plugin.Ctx) *plugin.Reply {
		if isSafe(r.Request.Method) {
			return nil
		}
		inHeader, _ := r.Header(c.Name)
		if inHeader == "" {
			return noHeader
		}
		inCookie, there := cookie.Value(r)
		switch {
		case !there:
			return noCookie
		case inHeader != inCookie:
			return mismatch
		case !c.verify(inCookie, env.Now().Unix()):
			return invalid
		}
		return nil
	}
	header := func(r *plugin.Ctx) {
		r.Response.Header.Add("Set-Cookie", c.cookie(r, env.Now()))
	}
	return plugin.Phases{Access: access, Header: header}, nil
}

func isSafe(method string) bool {
	return method == "GET" || method == "HEAD" || method == "OPTIONS"
}

// room is what most tokens fit in, so that they are made on the stack.
const room = 512

// cookie makes a new token's Set-Cookie.
func (c *Config) cookie(r *plugin.Ctx, now time.Time) string {
	var number, stack, line [room]byte
	random := strconv.AppendFloat(number[:0], rand.Float64(), 'g', 14, 64)
	made := strconv.AppendInt(random, now.Unix(), 10)[len(random):]
	sign := c.sign(random, made)

	token := append(append(stack[:0], `{"random":`...), random...)
	token = append(append(token, `,"expires":`...), made...)
	token = append(append(append(token, `,"sign":"`...), sign[:]...), `"}`...)

	b := append(append(line[:0], c.Name...), '=')
	b = base64.StdEncoding.AppendEncode(b, token)
	b = append(b, ";path=/;SameSite=Lax;Expires="...)
	return r.Keep(appendCookieTime(b, time.Unix(now.Unix()+c.Expires, 0).UTC()))
}

// appendCookieTime prints a time as nginx does in cookies.
func appendCookieTime(b []byte, t time.Time) []byte {
	if t.Year() > 2037 {
		return t.AppendFormat(b, "Mon, 02-Jan-2006 15:04:05 GMT")
	}
	return t.AppendFormat(b, "Mon, 02-Jan-06 15:04:05 GMT")
}

// sign is what proves that a token was made here.
func (c *Config) sign(random, made []byte) (sign [2 * sha256.Size]byte) {
	var stack [room]byte
	b := append(append(stack[:0], "{expires:"...), made...)
	b = append(append(b, ",random:"...), random...)
	b = append(append(append(b, ",key:"...), c.Key...), '}')
	sum := sha256.Sum256(b)
	hex.Encode(sign[:], sum[:])
	return sign
}

// verify says whether a token was made here and is still good.
func (c *Config) verify(token string, now int64) bool {
	var in, out [room]byte
	text, err := base64.RawStdEncoding.AppendDecode(out[:0], append(in[:0], strings.TrimRight(token, "=")...))
	if err != nil {
		return false
	}
	o, ok := plugin.ParseObject(text)
	if !ok {
		return false
	}
	random, made, given := plain(o.Member("random")), plain(o.Member("expires")), plain(o.Member("sign"))
	at, err := strconv.ParseFloat(string(made), 64)
	if err != nil || random == nil || c.Expires > 0 && float64(now)-at > float64(c.Expires) {
		return false
	}
	sign := c.sign(random, made)
	return subtle.ConstantTimeCompare(sign[:], given) == 1
}

// plain is the text of a number or a string in JSON; nil: it is something else.
// Tokens are made without escapes.
func plain(value []byte) []byte {
	switch {
	case len(value) == 0:
		return nil
	case value[0] == '"':
		return value[1 : len(value)-1]
	case value[0] == '-' || '0' <= value[0] && value[0] <= '9':
		return value
	}
	return nil
}
