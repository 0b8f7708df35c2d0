package liquid

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"net/http"
	"strings"
	"time"
)

// nginxFilters are functions of OpenResty (lua-nginx-module, ngx.*).
func nginxFilters() map[string]any {
	all := map[string]any{
		"escape_uri":    func(a any) string { return escape(loose(a)) },
		"unescape_uri":  func(a any) string { return unescape(loose(a), true) },
		"encode_base64": func(a any) string { return base64.StdEncoding.EncodeToString([]byte(loose(a))) },
		"decode_base64": func(a any) any {
			b, err := base64.StdEncoding.DecodeString(loose(a))
			if err != nil {
				return nil
			}
			return string(b)
		},
		"crc32_short": func(a any) int { return int(crc32.ChecksumIEEE([]byte(loose(a)))) },
		"crc32_long":  func(a any) int { return int(crc32.ChecksumIEEE([]byte(loose(a)))) },
		"hmac_sha1": func(key, a any) string {
			h := hmac.New(sha1.New, []byte(loose(key)))
			h.Write([]byte(loose(a)))
			return string(h.Sum(nil))
		},
		"md5": func(a any) string {
			sum := md5.Sum([]byte(loose(a)))
			return hex.EncodeToString(sum[:])
		},
		"md5_bin": func(a any) string {
			sum := md5.Sum([]byte(loose(a)))
			return string(sum[:])
		},
		"sha1_bin": func(a any) string {
			sum := sha1.Sum([]byte(loose(a)))
			return string(sum[:])
		},
		"quote_sql_str": func(a any) string { return "'" + sqlReplacer.Replace(loose(a)) + "'" },
	}
	for name, f := range clockFilters() {
		all[name] = f
	}
	return all
}

// clockFilters tell the time; what they are applied to does not matter.
func clockFilters() map[string]any {
	return map[string]any{
		"today":     func(any) string { return time.Now().Format(time.DateOnly) },
		"localtime": func(any) string { return time.Now().Format(time.DateTime) },
		"utctime":   func(any) string { return time.Now().UTC().Format(time.DateTime) },
		"time":      func(any) int { return int(time.Now().Unix()) },
		"now":       func(any) any { return result(float64(time.Now().UnixMilli()) / 1000) },
		"http_time": func(a any) (any, error) {
			n, err := count(a)
			if err != nil {
				return nil, err
			}
			return time.Unix(int64(n), 0).UTC().Format(http.TimeFormat), nil
		},
		"cookie_time": func(a any) (any, error) {
			n, err := count(a)
			if err != nil {
				return nil, err
			}
			return time.Unix(int64(n), 0).UTC().Format("Mon, 02-Jan-06 15:04:05 GMT"), nil
		},
		"parse_http_time": func(a any) any {
			t, err := http.ParseTime(loose(a))
			if err != nil {
				return nil
			}
			return int(t.Unix())
		},
	}
}

// loose is v as a text; nothing is the empty one.
func loose(v any) string {
	b, _ := AppendText(nil, v)
	return string(b)
}

var sqlReplacer = strings.NewReplacer("\x00", `\0`, "\b", `\b`, "\n", `\n`, "\r", `\r`, "\t", `\t`,
	"\x1a", `\Z`, `\`, `\\`, "'", `\'`, `"`, `\"`)

const digits = "0123456789ABCDEF"

// escape encodes all but unreserved characters (RFC 3986 §2.3).
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if alnum(c) || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

// unescape decodes %XX, and plus as a space; what is no %XX stays.
func unescape(s string, plus bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		if c := s[i]; c == '+' && plus {
			b.WriteByte(' ')
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
