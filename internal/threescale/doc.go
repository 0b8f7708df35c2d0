// Package threescale is what the policies of 3scale products have in common: the
// product, what is known of a request to it, mapping rules, usage, conditions,
// and where a request goes (apicast.md §§2, 4, 5).
package threescale
