package threescale

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"weir/internal/expr"
	"weir/internal/model"
	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
)

// wanted is what the specification says that a caller has shown (apicast.md §4.1),
// step by step; nil: missing.
func wanted(version, location, query, form string, header map[string]string) (userKey, appID, appKey, token *string) {
	argument := func(name string) *string {
		m := regexp.MustCompile(`(?i)(?:^|&)` + name + `=([^&]*)`).FindStringSubmatch(query)
		if m != nil {
			return &m[1]
		}
		for _, pair := range strings.Split(form, "&") {
			k, v, has := strings.Cut(pair, "=")
			if has && expr.Unescape(k) == name {
				v = expr.Unescape(v)
				return &v
			}
		}
		return nil
	}
	field := func(name string) *string {
		if v, ok := header[name]; ok {
			return &v
		}
		return nil
	}
	var user, password, bearer *string
	if m := regexp.MustCompile(`(?s)^([A-Za-z0-9]+)[ \t\r\n\v\f]*(.*)$`).FindStringSubmatch(header["authorization"]); m != nil {
		switch m[1] {
		case "Basic":
			text, _, _ := strings.Cut(m[2], "=")
			decoded, err := base64.StdEncoding.DecodeString(text + strings.Repeat("=", (4-len(text)%4)%4))
			if parts := regexp.MustCompile(`(?s)^(.*):(.*)$`).FindStringSubmatch(string(decoded)); err == nil && parts != nil {
				user, password = &parts[1], &parts[2]
			}
		case "Bearer":
			bearer = &m[2]
		}
	}
	first := func(values ...*string) *string {
		for _, v := range values {
			if v != nil {
				return v
			}
		}
		return nil
	}
	look := map[string]func(string) *string{"query": argument, "headers": field}[location]
	switch {
	case look != nil && version == userKey_:
		return look("user_key"), nil, nil, nil
	case look != nil && version == appKey_:
		return nil, look("app_id"), look("app_key"), nil
	case look != nil:
		return nil, nil, nil, first(look("access_token"), bearer)
	case version == userKey_:
		return first(user, password, bearer), nil, nil, nil
	case version == appKey_:
		return nil, first(user, bearer), password, nil
	}
	return nil, nil, nil, bearer
}

// The versions, under names that the results of wanted do not hide.
const userKey_, appKey_ = userKey, appKey

type form string

func (f form) Body(limit int64) ([]byte, error) {
	if int64(len(f)) > limit {
		return nil, plugin.ErrBodyTooLarge
	}
	return []byte(f), nil
}

func FuzzCredentials(f *testing.F) {
	f.Add(uint8(0), uint8(0), "user_key=k&x=1", "a=b&user_key=c+d", "Basic dTpw", "k")
	f.Add(uint8(1), uint8(0), "APP_ID=i%20&app_key", "app%5Fkey=k", "", "")
	f.Add(uint8(1), uint8(2), "", "", "Basic YTpiOmM=", "")
	f.Add(uint8(2), uint8(1), "", "", "Bearer a.b.c", "t")
	f.Add(uint8(0), uint8(2), "", "", "Basic:", "")
	f.Add(uint8(2), uint8(0), "access_token=", "", "Bearer", "")
	f.Fuzz(func(t *testing.T, v, l uint8, query, body, authorization, shown string) {
		version := [...]string{userKey, appKey, oauth}[v%3]
		location := [...]string{"query", "headers", "authorization"}[l%3]
		if strings.ContainsAny(query, "\n") || len(body) > maxForm {
			return
		}
		p := &Product{Product: &model.Product{
			BackendVersion: version, CredentialsLocation: location, UserKeyName: "user_key", AppIDName: "app_id", AppKeyName: "app_key",
		}}
		p.finder = newFinder(p.Product)
		c := plugintest.NewCtx("/", [2]string{"content-type", "application/x-www-form-urlencoded"})
		c.Request.Method, c.Request.Length, c.Buffer = "POST", int64(len(body)), form(body)
		header := map[string]string{}
		for _, h := range [][2]string{{"Authorization", authorization}, {"User-Key", shown}, {"app_ID", shown}, {"App-key", shown}, {"Access_token", shown}} {
			if h[1] == "" {
				continue
			}
			c.Request.Header.AddValid(h[0], h[1])
			header[strings.ToLower(strings.ReplaceAll(h[0], "-", "_"))] = h[1]
		}
		r := &Request{Product: p, Query: query}
		got := r.FindCredentials(c)
		ks := [4]*string{}
		ks[0], ks[1], ks[2], ks[3] = wanted(version, location, query, body, header)
		for i, value := range [...]string{got.UserKey, got.AppID, got.AppKey, got.AccessToken} {
			has := got.has()&(1<<i) != 0
			if has != (ks[i] != nil) || has && value != *ks[i] {
				t.Errorf("version %s, %s, query %q, body %q, authorization %q, header %q: member %d is %q %v, want %v",
					version, location, query, body, authorization, shown, i, value, has, ks[i])
			}
		}
		if want := map[string]shownOf{userKey: {0}, appKey: {1, 2}, oauth: {3}}[version].in(ks); p.Complete(&got) != want {
			t.Errorf("complete: %v, want %v", !want, want)
		}
		encoded, err := url.ParseQuery(string(appendCredentials(nil, &got)))
		if err != nil || encoded.Get("user_key") != got.UserKey || encoded.Get("app_key") != got.AppKey {
			t.Errorf("%v is not %+v", encoded, got)
		}
	})
}

type shownOf []int

func (s shownOf) in(ks [4]*string) bool {
	for _, i := range s {
		if ks[i] == nil {
			return false
		}
	}
	return true
}
