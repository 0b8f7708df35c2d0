package expr

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/internal/document"
	"weir/internal/plugin"
	"weir/internal/wire"
)

// body is a request's body. It counts how often it is asked for.
type body struct {
	text  string
	asked int
}

func (b *body) Body(limit int64) ([]byte, error) {
	b.asked++
	if int64(len(b.text)) > limit {
		return nil, plugin.ErrBodyTooLarge
	}
	return []byte(b.text), nil
}

// ctx is a request with header fields given as name and value in turn.
func ctx(method, target, text string, fields ...string) *plugin.Ctx {
	c := &plugin.Ctx{
		Request: &wire.Request{Method: method, Target: target, Host: "a.test", Proto: wire.HTTP11},
		Path:    strings.Split(target, "?")[0], Client: "127.0.0.1", Scheme: "http", Buffer: &body{text: text},
	}
	for i := 0; i < len(fields); i += 2 {
		c.Request.Header.Add(fields[i], fields[i+1])
	}
	return c
}

func match(t *testing.T, raw string, c *plugin.Ctx) (bool, error) {
	t.Helper()
	e, err := Compile(json.RawMessage(raw))
	if err != nil {
		t.Errorf("%s: %v", raw, err)
		return false, nil
	}
	return e.Match(c)
}

func TestCompileErrors(t *testing.T) {
	for raw, want := range map[string]string{
		`[["arg_k","=","v"]]`:              "invalid operator '='",
		`[["arg_k","INVALID",10]]`:         "invalid operator 'invalid'",
		`[["arg_k",5,10]]`:                 "invalid operator '5'",
		`[["arg_k"]]`:                      "invalid expression",
		`[[]]`:                             "rule too short",
		`[{}]`:                             "rule too short",
		`[["!","arg_k","==","1"]]`:         "bad 'not' expression",
		`[["arg_k","not","==","1"]]`:       "bad 'not' expression",
		`["OR",["arg_w",">",10]]`:          "rule too short",
		`["OR",["arg_w",">",10],["AND"]]`:  "rule too short",
		`["OR"]`:                           "rule too short",
		`["arg_k","==","v"]`:               "rule should be wrapped inside brackets",
		`[1,2]`:                            "rule should be wrapped inside brackets",
		`[null]`:                           "invalid expression",
		`[["a","==","b"],"c"]`:             "invalid expression",
		`["AND","a","b"]`:                  "invalid expression",
		`[[1,"==","b"]]`:                   "invalid expression",
		`[[true,"==","b"]]`:                "invalid expression",
		`[["a",["=="],"b"]]`:               "invalid expression",
		`null`:                             "missing argument rule",
		`{}`:                               "invalid expression",
		`"a"`:                              "invalid expression",
		`[["a","==","b"]`:                  "Expected comma or array end but found T_END at character 16",
		`[["remote_addr","ipmatch",null]]`: "invalid ip address",
		`[["remote_addr","ipmatch"]]`:      "invalid ip address",
		`[["remote_addr","ipmatch",""]]`:   "invalid ip address",
		`[["remote_addr","ipmatch",[]]]`:   "invalid ip address",
		`[["remote_addr","ipmatch",7]]`:    "invalid ip address",
		`[["remote_addr","ipmatch",[""]]]`: "invalid ip address: ",
		`[["remote_addr","ipmatch",["127.0.0.1","127.0.0.256/8"]]]`:   "invalid ip address: 127.0.0.256",
		`[["remote_addr","ipmatch","127.0.0.1/33"]]`:                  "invalid ip address: 127.0.0.1",
		`[["remote_addr","ipmatch","127.0.0.1/1.5"]]`:                 "invalid ip address: 127.0.0.1",
		`[["remote_addr","ipmatch","fe80::1%eth0"]]`:                  "invalid ip address: fe80::1%eth0",
		`[["post_arg.messages[.content[*].type","has","image_url"]]`:  `invalid expression "$.messages[.content[*].type" near ".content[*].type"`,
		`[["uri","~~","("]]`:                                          `pcre_compile() failed: missing ) in "("`,
		`[["uri","~~","(?R)"]]`:                                       `invalid or unsupported regular expression "(?R)"`,
		`["AND",[["a","==","1"]],["!OR",["b","=","1"],["c","==",1]]]`: "invalid operator '='",
	} {
		_, err := Compile(json.RawMessage(raw))
		if err == nil {
			t.Errorf("%s: accepted", raw)
			continue
		}
		if got := err.Error(); got != want && !(strings.Contains(want, "regular") && strings.HasPrefix(got, want)) {
			t.Errorf("%s:\n got %s\nwant %s", raw, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	c := ctx("GET", "/p?k=v&n=10&neg=-1.5&hex=0x10&sp=%2010%20&e=&flag&esc=a%20b&u=1_0&inf=inf", "", "Age", "18", "X-Two", "a", "X-Two", "b")
	c.Sent.Tries = []plugin.Try{{Addr: "10.0.0.1:80"}}
	for raw, want := range map[string]bool{
		`[]`: true,
		// equality
		`[["arg_k","==","v"]]`:            true,
		`[["arg_k","==","V"]]`:            false,
		`[["arg_k","~=","v"]]`:            false,
		`[["arg_k","~=","w"]]`:            true,
		`[["arg_k","!","==","v"]]`:        false,
		`[["arg_k","!","~=","v"]]`:        true,
		`[["arg_k","v"]]`:                 true,
		`[["arg_k","V"]]`:                 true, // a value in the operator's place has become lower case
		`[["arg_n",10]]`:                  true, // and a text
		`[["arg_none","=="]]`:             true, // an operator without a value: nil
		`[["arg_k","=="]]`:                false,
		`[["arg_e","==",""]]`:             true,
		`[["arg_none","==",""]]`:          false,
		`[["arg_none","~=",""]]`:          true,
		`[["arg_flag","==",true]]`:        true,
		`[["arg_flag","==","true"]]`:      false,
		`[["arg_esc","==","a b"]]`:        true,
		`[["arg_k","==","v","x","y"]]`:    true, // more items do not count
		`[["http_age","==","18"]]`:        true,
		`[["http_X-Two","==","a, b"]]`:    true,
		`[["no_such_variable","==","x"]]`: false,
		// null
		`[["arg_none","==",null]]`: true,
		`[["arg_none","~=",null]]`: false,
		`[["arg_k","==",null]]`:    false,
		`[["arg_k","~=",null]]`:    true,
		// numbers convert the left side of == and ~=
		`[["arg_n","==",10]]`:       true,
		`[["arg_n","==","10"]]`:     true,
		`[["arg_n","==",10.0]]`:     true,
		`[["arg_n","==","10.0"]]`:   false,
		`[["arg_sp","==",10]]`:      true,
		`[["arg_hex","==",16]]`:     true,
		`[["arg_neg","==",-1.5]]`:   true,
		`[["arg_k","==",10]]`:       false,
		`[["arg_k","~=",10]]`:       true,
		`[["arg_n","~=",10]]`:       false,
		`[["arg_none","==",0]]`:     false,
		`[["arg_none","~=",0]]`:     true,
		`[["arg_u","==",10]]`:       false,
		`[["arg_k","==",true]]`:     false,
		`[["arg_k","==",["v"]]]`:    false,
		`[["arg_k","~=",["v"]]]`:    true,
		`[["arg_k","==",{"a":"v"}]`: false,
		// order
		`[["arg_n",">",9]]`:               true,
		`[["arg_n",">","9"]]`:             true,
		`[["arg_n",">",10]]`:              false,
		`[["arg_n",">=",10]]`:             true,
		`[["arg_n","<",10.5]]`:            true,
		`[["arg_n","<",10]]`:              false,
		`[["arg_n","<=","1e1"]]`:          true,
		`[["arg_neg","<",0]]`:             true,
		`[["arg_inf",">",1e300]]`:         true,
		`[["arg_k",">",1]]`:               false,
		`[["arg_k","<",1]]`:               false,
		`[["arg_k","!","<",1]]`:           true,
		`[["arg_none","<",1]]`:            false,
		`[["arg_n","<","x"]]`:             false,
		`[["arg_n",">=",null]]`:           false,
		`[["arg_n","!",">",15]]`:          true,
		`[["arg_n",">",9],["arg_n","<"]]`: false,
		// patterns
		`[["arg_k","~~","^[u-w]$"]]`:         true,
		`[["arg_k","~~","V"]]`:               false,
		`[["arg_k","~*","V"]]`:               true,
		`[["arg_k","!","~*","V"]]`:           false,
		`[["arg_none","~~",".*"]]`:           false,
		`[["arg_none","!","~~",".*"]]`:       true,
		`[["arg_e","~~","^$"]]`:              true,
		`[["arg_n","~~",1]]`:                 true,
		`[["arg_n","~~",null]]`:              false,
		`[["arg_flag","~~","^true$"]]`:       true,
		`[["balancer_port","~~","^80$"]]`:    true,
		`[["uri","~~","^/(?!q)"]]`:           true,
		`[["uri","~*","^/P(?=$)"]]`:          true,
		`[["graphql_root_fields","~~","a"]]`: false,
		// in
		`[["arg_k","in",["u","v"]]]`:            true,
		`[["arg_k","IN",["u","v"]]]`:            true,
		`[["arg_k","in",["u"]]]`:                false,
		`[["arg_k","in",[]]]`:                   false,
		`[["arg_k","in","v"]]`:                  false,
		`[["arg_k","in",{"v":"v"}]]`:            false,
		`[["arg_k","!","in",["u"]]]`:            true,
		`[["arg_n","in",[10]]]`:                 false, // strict
		`[["arg_n","in",["10"]]]`:               true,
		`[["balancer_port","in",[80]]]`:         true,
		`[["balancer_port","in",["80"]]]`:       false,
		`[["arg_flag","in",[true]]]`:            true,
		`[["arg_none","in",[null]]]`:            false,
		`[["balancer_port","in",["80",80,[]]]]`: true,
		// has
		`[["arg_k","has","v"]]`:       false,
		`[["arg_k","!","has","v"]]`:   true,
		`[["arg_none","has",null]]`:   false,
		`[["balancer_port","has",8]]`: false,
		// ipmatch
		`[["remote_addr","ipmatch","127.0.0.1"]]`:                    true,
		`[["remote_addr","ipmatch",["10.0.0.0/8","127.0.0.0/24"]]]`:  true,
		`[["remote_addr","ipmatch",["10.0.0.0/8","127.0.0.2"]]]`:     false,
		`[["remote_addr","!","ipmatch",["10.0.0.0/8","127.0.0.2"]]]`: true,
		`[["remote_addr","ipmatch","0.0.0.0/0"]]`:                    true,
		`[["remote_addr","ipmatch","::/0"]]`:                         false,
		`[["remote_addr","ipmatch","127.0.0.1/x"]]`:                  true,
		`[["arg_k","ipmatch","127.0.0.1"]]`:                          false,
		`[["arg_none","ipmatch","127.0.0.1"]]`:                       false,
		// groups
		`[["arg_k","==","v"],["arg_n",">",10]]`:                                                              false,
		`["AND",["arg_k","==","v"],["arg_n",">",9]]`:                                                         true,
		`["and",["arg_k","==","v"],["arg_n",">",9],["arg_none","==",null]]`:                                  true,
		`["OR",["arg_k","==","w"],["arg_n",">",9]]`:                                                          true,
		`["or",["arg_k","==","w"],["arg_n",">",10]]`:                                                         false,
		`["!AND",["arg_k","==","w"],["arg_n",">",9]]`:                                                        true,
		`["!AND",["arg_k","==","v"],["arg_n",">",9]]`:                                                        false,
		`["!OR",["arg_k","==","w"],["arg_n",">",10]]`:                                                        true,
		`["!or",["arg_k","==","w"],["arg_n",">",9]]`:                                                         false,
		`[[["arg_k","==","v"]],["or",["arg_n","==",1],["arg_n","==",10]]]`:                                   true,
		`["OR",[["arg_k","==","v"],["arg_n","==",1]],["!OR",["a","a"],["b","b"]]]`:                           true,
		`["!OR",["!AND",["arg_n","<",20],["arg_n","!","<",5]],["!OR",["arg_n",">",5],["arg_n","!","<",15]]]`: true,
	} {
		if strings.HasSuffix(raw, "}]") && !strings.HasSuffix(raw, "}]]") {
			raw += "]"
		}
		got, err := match(t, raw, c)
		if got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", raw, got, err, want)
		}
	}
}

func TestMatchIPv6(t *testing.T) {
	for client, want := range map[string]bool{
		"2001:db8::1": true, "2001:db8:0:1::1": true, "2001:db9::1": false, "::ffff:127.0.0.1": false, "[2001:db8::1]": true,
		"": false, "x": false,
	} {
		c := ctx("GET", "/", "")
		c.Client = client
		if got, err := match(t, `[["remote_addr","ipmatch",["[2001:db8::]/32","127.0.0.1"]]]`, c); got != want || err != nil {
			t.Errorf("%s: %v, %v", client, got, err)
		}
	}
}

// An address that is no text has no meaning, so that the expression has none.
func TestMatchFails(t *testing.T) {
	c := ctx("GET", "/?flag", "")
	for _, raw := range []string{
		`[["arg_flag","ipmatch","127.0.0.1"]]`,
		`[["arg_flag","!","ipmatch","127.0.0.1"]]`,
		`["OR",["arg_flag","ipmatch","127.0.0.1"],["uri","==","/"]]`,
		`["!OR",["arg_flag","ipmatch","127.0.0.1"],["uri","==","x"]]`,
	} {
		if got, err := match(t, raw, c); got || err == nil {
			t.Errorf("%s: %v, %v", raw, got, err)
		}
	}
	if got, err := match(t, `["OR",["uri","==","/"],["arg_flag","ipmatch","127.0.0.1"]]`, c); !got || err != nil {
		t.Errorf("what is not asked cannot fail: %v, %v", got, err)
	}
}

func TestParseNumber(t *testing.T) {
	for s, want := range map[string]string{
		"1": "1", "+1": "1", " -1.5\t": "-1.5", ".5": "0.5", "5.": "5", "1e3": "1000", "0x1F": "31", "-0x1f": "-31", "0x.8": "0.5",
		"0x1p4": "16", "0x1P-1": "0.5", "0b101": "5", "1e999": "+Inf", "inf": "+Inf", "-Infinity": "-Inf", "nan": "NaN", "007": "7",
		"": "no", " ": "no", "-": "no", "--1": "no", "+-1": "no", "1x": "no", "1_0": "no", "0x": "no", "0xg": "no", "0x1.2.3": "no",
		"0x1p": "no", "0b2": "no", "1 2": "no", "e5": "no", "1e": "no", "0x_1": "no", "0b": "no",
	} {
		got := "no"
		if f, ok := parseNumber(s); ok {
			b, _ := numberOf(f).append(nil)
			got = string(b)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
	for f, want := range map[float64]string{1e14: "1e+14", 1e13: "10000000000000", 0.1: "0.1", 1.0 / 3: "0.33333333333333", -2: "-2"} {
		if b, _ := numberOf(f).append(nil); string(b) != want {
			t.Errorf("%v: %s, want %s", f, b, want)
		}
	}
}

func TestAlwaysAndReadsBody(t *testing.T) {
	for raw, want := range map[string][2]bool{
		`[]`:                                  {true, false},
		`[["a","==","b"]]`:                    {false, false},
		`["OR",["a","a"],[["post_arg.x",1]]]`: {false, true},
		`[["graphql_name","==","a"]]`:         {false, true},
		`[["post_arg_x","==","a"]]`:           {false, true},
	} {
		e, err := Compile(json.RawMessage(raw))
		if err != nil || e.Always() != want[0] || e.ReadsBody() != want[1] {
			t.Errorf("%s: %v, %v, %v", raw, e.Always(), e.ReadsBody(), err)
		}
	}
}

func TestMatchAllocations(t *testing.T) {
	c := ctx("GET", "/a/b?k=v&n=10&x=%41", "", "User-Agent", "Mozilla/5.0 (Linux; Android 14)", "Cookie", "sid=1; b=2", "X-U", "ü")
	for _, raw := range []string{
		`[["arg_k","==","v"]]`,
		`[["arg_n",">",9],["arg_n","<=",10],["arg_n","!","==",11]]`,
		`[["arg_x","==","A"]]`,
		`[["http_user_agent","~~","Android [0-9]+"]]`,
		`[["http_user_agent","~*","^mozilla/.*android"]]`,
		`[["http_x_u","~~","^.{2}$"]]`,
		`[["uri","in",["/a","/b","/a/b"]],["request_method","in",["GET","HEAD"]]]`,
		`["OR",["cookie_sid","==","2"],["cookie_b","==","2"]]`,
		`[["remote_addr","ipmatch",["10.0.0.0/8","127.0.0.0/8"]]]`,
		`[["request_uri","~~","/a"],["server_port","==","0"],["host","a.test"],["http_none","==",null]]`,
	} {
		e, err := Compile(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		run := func() {
			if ok, err := e.Match(c); !ok || err != nil {
				t.Fatalf("%s: %v, %v", raw, ok, err)
			}
		}
		run()
		if n := testing.AllocsPerRun(200, run); n != 0 && !raceEnabled {
			t.Errorf("%s: %v allocations", raw, n)
		}
	}
}

// A body is parsed once, however many variables look at it.
func TestBodyIsParsedOnce(t *testing.T) {
	c := ctx("POST", "/", `{"a":{"b":"x"},"list":[1,2]}`, "Content-Type", "application/json")
	for range 3 {
		ok, err := match(t, `[["post_arg.a.b","==","x"],["post_arg.list[*]","has",2],["post_arg_a","==",null],["graphql_name","==",null]]`, c)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if n := c.Buffer.(*body).asked; n != 3 {
		t.Errorf("the body was asked for %d times, want 3: as arguments, and as GraphQL in two steps", n)
	}
	c.Reset()
	if c.State(bodyKey{}) != nil {
		t.Error("the next request sees the body")
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`[]`, `[["a","==","b"]]`, `["OR",["a","~~","^b$"],["c","!","in",[1,"x",null]]]`, `[["post_arg.a[?(@.b>1)]","has",1]]`,
		`[["uri","~*","(a++|\\Qb\\E)\\s$"]]`, `[["remote_addr","ipmatch",["::1/64"]]]`, `[["graphql_root_fields","has","a"]]`,
	} {
		f.Add(s, `{"a":[{"b":2}]}`, "/?a=b")
	}
	f.Fuzz(func(t *testing.T, raw, text, target string) {
		e, err := Compile(json.RawMessage(raw))
		if err != nil {
			return
		}
		c := ctx("POST", "/"+target, text, "Content-Type", "application/json")
		first, err := e.Match(c)
		if second, again := e.Match(c); second != first || (err == nil) != (again == nil) {
			t.Errorf("%q: %v, %v, then %v, %v", raw, first, err, second, again)
		}
		if doc, _ := document.Parse([]byte(raw)); doc == nil || doc.Kind != document.Array {
			t.Errorf("%q was accepted", raw)
		}
	})
}
