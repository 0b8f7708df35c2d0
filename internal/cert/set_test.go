package cert

import "testing"

func TestFind(t *testing.T) {
	var s Set
	e := s.Edit()
	for i, hosts := range [][]string{{"www.test.com"}, {"*.test.com", "Upper.Test"}, {"dot.test."}, {"*"}, {"www.test.com"}} {
		c := &Certificate{ID: string(rune('a' + i)), Hosts: hosts}
		e.Replace(Entry{}, Entry{c, int64(i)})
	}
	s = e.Set()
	for name, want := range map[string]string{
		"www.test.com": "a", "WWW.test.com.": "a", "x.test.com": "b", "x.y.test.com": "d", "upper.test": "b",
		"dot.test": "c", "dot.test.": "c", "other": "d",
	} {
		if c := s.Find(name); c == nil || c.ID != want {
			t.Errorf("%s: %+v, want %s", name, c, want)
		}
	}
	if c := s.Find(""); c != nil {
		t.Errorf("no name: %+v", c)
	}
	e = s.Edit()
	first := s.Find("dot.test")
	e.Replace(Entry{first, 2}, Entry{})
	if s = e.Set(); s.Find("dot.test").ID != "d" {
		t.Error("a removed certificate is found")
	}
}
