// Package archtest holds the building to its floors and to a few manners that
// are cheap to check by machine and dear to find later. It has only tests.
package archtest
