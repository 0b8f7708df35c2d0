// Package liquid renders templates in the dialect of APIcast: Liquid as
// liquid-lua 0.2 understands it, with OpenResty's functions as filters
// (apicast.md §5.2). Templates are compiled once; what names mean is asked for
// only where a template has them.
package liquid
