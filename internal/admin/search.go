package admin

import (
	"regexp"
	"time"

	"github.com/dlclark/regexp2"
)

// searcher returns a function that reports whether a Perl-compatible regular
// expression occurs in a text. One that does not compile occurs nowhere.
func searcher(pattern string) func(string) bool {
	if re, err := regexp.Compile(pattern); err == nil {
		return re.MatchString
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return func(string) bool { return false }
	}
	re.MatchTimeout = 10 * time.Millisecond // of one text; backtracking may take for ever
	return func(s string) bool {
		found, err := re.MatchString(s)
		return found && err == nil
	}
}
