// Package apisix turns Apache APISIX's configuration documents into the typed
// objects of package model, and checks them as APISIX 3.18 does, in its words.
package apisix
