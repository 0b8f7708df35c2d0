// Package expr compiles variables, templates and match expressions, as nginx
// and APISIX name and write them, to functions of a request. Everything that can
// be wrong is found when compiling; reading a compiled variable or template
// cannot fail, evaluating an expression only where the original fails too.
package expr
