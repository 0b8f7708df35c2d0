// Package apicast reads the documents of 3scale's APIcast: services with their
// proxies, OIDC entries and policy chains (apicast.md §2).
package apicast
