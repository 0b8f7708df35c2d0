// Package redisclient is how plugins reach a Redis, a Redis cluster or a master
// found by sentinels: the properties that APISIX's plugins have for it, and
// clients that equal configurations share.
package redisclient

import (
	"strings"

	"weir/internal/schema"
)

// The values of policy.
const (
	Single   = "redis"
	Cluster  = "redis-cluster"
	Sentinel = "redis-sentinel"
)

// Config is the part of a plugin's configuration that says where Redis is. It
// is to be embedded; Branches describes its properties.
type Config struct {
	Host     string `json:"redis_host" schema:"elsewhere"`
	Port     int    `json:"redis_port" schema:"elsewhere"`
	Username string `json:"redis_username" schema:"elsewhere"`
	Password string `json:"redis_password" schema:"secret,elsewhere"`
	Database int    `json:"redis_database" schema:"elsewhere"`
	Timeout  int    `json:"redis_timeout" schema:"elsewhere"` // milliseconds
	TLS      bool   `json:"redis_ssl" schema:"elsewhere"`
	Verify   bool   `json:"redis_ssl_verify" schema:"elsewhere"`

	KeepaliveTimeout int `json:"redis_keepalive_timeout" schema:"elsewhere"` // milliseconds
	KeepalivePool    int `json:"redis_keepalive_pool" schema:"elsewhere"`

	ClusterNodes  []string `json:"redis_cluster_nodes" schema:"elsewhere"`
	ClusterName   string   `json:"redis_cluster_name" schema:"elsewhere"`
	ClusterTLS    bool     `json:"redis_cluster_ssl" schema:"elsewhere"`
	ClusterVerify bool     `json:"redis_cluster_ssl_verify" schema:"elsewhere"`
}

// SentinelConfig is the part of a plugin's configuration that says where the
// sentinels are; it is to be embedded beside Config.
type SentinelConfig struct {
	Sentinels        []Address `json:"redis_sentinels" schema:"elsewhere"`
	MasterName       string    `json:"redis_master_name" schema:"elsewhere"`
	Role             string    `json:"redis_role" schema:"elsewhere"`
	ConnectTimeout   int       `json:"redis_connect_timeout" schema:"elsewhere"` // milliseconds
	ReadTimeout      int       `json:"redis_read_timeout" schema:"elsewhere"`    // milliseconds
	SentinelUsername string    `json:"sentinel_username" schema:"elsewhere"`
	SentinelPassword string    `json:"sentinel_password" schema:"secret,elsewhere"`
}

// An Address is where a sentinel listens.
type Address struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

const (
	common = `"redis_password": {"type": "string", "minLength": 0},
		"redis_timeout": {"type": "integer", "minimum": 1, "default": 1000},
		"redis_keepalive_timeout": {"type": "integer", "minimum": 1000, "default": 10000},
		"redis_keepalive_pool": {"type": "integer", "minimum": 1, "default": 100}`
	single = `{"properties": {
		"redis_host": {"type": "string", "minLength": 2},
		"redis_port": {"type": "integer", "minimum": 1, "default": 6379},
		"redis_username": {"type": "string", "minLength": 1},
		"redis_database": {"type": "integer", "minimum": 0, "default": 0},
		"redis_ssl": {"type": "boolean", "default": false},
		"redis_ssl_verify": {"type": "boolean", "default": false},
		` + common + `EXTRA}, "required": ["redis_host"]}`
	cluster = `{"properties": {
		"redis_cluster_nodes": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 2, "maxLength": 100}},
		"redis_cluster_name": {"type": "string"},
		"redis_cluster_ssl": {"type": "boolean", "default": false},
		"redis_cluster_ssl_verify": {"type": "boolean", "default": false},
		` + common + `EXTRA}, "required": ["redis_cluster_nodes", "redis_cluster_name"]}`
	sentinel = `{"properties": {
		"redis_sentinels": {"type": "array", "minItems": 1, "items": {
			"type": "object",
			"properties": {"host": {"type": "string", "minLength": 2}, "port": {"type": "integer", "minimum": 1, "maximum": 65535}},
			"required": ["host", "port"], "additionalProperties": false}},
		"redis_master_name": {"type": "string", "minLength": 1},
		"redis_role": {"type": "string", "enum": ["master", "slave"], "default": "master"},
		"redis_connect_timeout": {"type": "integer", "minimum": 1, "default": 1000},
		"redis_read_timeout": {"type": "integer", "minimum": 1, "default": 1000},
		"redis_keepalive_timeout": {"type": "integer", "minimum": 1, "default": 60000},
		"redis_database": {"type": "integer", "minimum": 0, "default": 0},
		"redis_username": {"type": "string", "minLength": 1},
		"redis_password": {"type": "string", "minLength": 0},
		"sentinel_username": {"type": "string", "minLength": 1},
		"sentinel_password": {"type": "string", "minLength": 0}
		EXTRA}, "required": ["redis_sentinels", "redis_master_name"]}`
)

// Branches describes the properties for the policies Single and Cluster and,
// if sentinels, Sentinel, depending on the property policy. extra are further
// members of each, as JSON that begins with a comma.
func Branches(sentinels bool, extra string) schema.Constraint {
	when := func(policy, then string) string {
		return `"if": {"properties": {"policy": {"enum": ["` + policy + `"]}}}, "then": ` + then
	}
	otherwise := when(Cluster, cluster)
	if sentinels {
		otherwise += `, "else": {` + when(Sentinel, sentinel) + `}`
	}
	doc := `{` + when(Single, single) + `, "else": {` + otherwise + `}}`
	return schema.Conditional(strings.ReplaceAll(doc, "EXTRA", extra))
}
