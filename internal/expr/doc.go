// Package expr compiles variables and templates, as nginx and APISIX name and
// write them, to functions of a request. Everything that can be wrong is found
// when compiling; reading a compiled value cannot fail.
package expr
