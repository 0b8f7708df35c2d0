package apisix

// The JSON Schemas of APISIX 3.18's resources (apisix-admin.md section 9), put
// together from the definitions that they share. A document is closed against
// unknown members where theirs is.

const (
	defID        = `{"anyOf":[{"type":"string","minLength":1,"maxLength":64,"pattern":"^[a-zA-Z0-9-_.]+$"},{"type":"integer","minimum":1}]}`
	defName      = `{"type":"string","minLength":1,"maxLength":256}`
	defDesc      = `{"type":"string","maxLength":256}`
	defLabels    = `{"type":"object","patternProperties":{".*":{"type":"string","pattern":"^\\S+$","minLength":1,"maxLength":256}}}`
	defTime      = `{"type":"integer"}`
	defHost      = `{"type":"string","pattern":"^\\*$|^\\*?[0-9a-zA-Z-._\\[\\]:]+$"}`
	defHosts     = `{"type":"array","minItems":1,"uniqueItems":true,"items":` + defHost + `}`
	defURI       = `{"type":"string","pattern":"^[^\\/]+:\\/\\/([\\da-zA-Z.-]+|\\[[\\da-fA-F:]+\\])(:\\d+)?"}`
	defMethods   = `"enum":["GET","POST","PUT","DELETE","PATCH","HEAD","OPTIONS","CONNECT","TRACE","PURGE"]`
	defPort      = `{"type":"integer","minimum":1,"maximum":65535}`
	defPlugins   = `{"type":"object"}`
	defWebsocket = `{"type":"boolean"}`
	defScript    = `{"type":"string","minLength":10,"maxLength":102400}`
	defSwitch    = `{"type":"integer","enum":[1,0],"default":1}`
	defCert      = `{"type":"string","minLength":128,"maxLength":65536}`
	defKey       = `{"type":"string","minLength":64,"maxLength":65536}`
	defSNI       = `{"type":"string","pattern":"^\\*$|^\\*?[0-9a-zA-Z-._\\[\\]:]+$"}`
	defProtocol  = `{"type":"string","enum":["http","https","tcp"],"default":"http"}`

	octet = `([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])`
	defIP = `{"type":"string","anyOf":[
		{"title":"IPv4","type":"string","format":"ipv4"},
		{"title":"IPv4/CIDR","type":"string","pattern":"^` + octet + `\\.` + octet + `\\.` + octet + `\\.` + octet + `/([12]?[0-9]|3[0-2])$"},
		{"title":"IPv6","type":"string","format":"ipv6"},
		{"title":"IPv6/CIDR","type":"string","pattern":"^([a-fA-F0-9]{0,4}:){1,8}(:[a-fA-F0-9]{0,4}){0,8}([a-fA-F0-9]{0,4})?/[0-9]{1,3}$"}]}`
	defTimeout = `{"type":"object","required":["connect","send","read"],"properties":{
		"connect":{"type":"number","exclusiveMinimum":0},"send":{"type":"number","exclusiveMinimum":0},"read":{"type":"number","exclusiveMinimum":0}}}`

	times    = `"create_time":` + defTime + `,"update_time":` + defTime
	metadata = `"id":` + defID + `,"name":` + defName + `,"desc":` + defDesc + `,"labels":` + defLabels + `,` + times
)

// Health checks.
const (
	statusList = `{"type":"array","minItems":1,"uniqueItems":true,"items":{"type":"integer","minimum":200,"maximum":599},"default":`
	defActive  = `{"type":"object","properties":{
		"type":` + defProtocol + `,
		"timeout":{"type":"number","default":1},
		"concurrency":{"type":"integer","default":10},
		"host":` + defHost + `,
		"port":` + defPort + `,
		"http_method":{"type":"string",` + defMethods + `,"default":"GET"},
		"http_path":{"type":"string","default":"/"},
		"http_req_body":{"type":"string","default":""},
		"https_verify_certificate":{"type":"boolean","default":true},
		"healthy":{"type":"object","properties":{
			"interval":{"type":"integer","minimum":1,"default":1},
			"http_statuses":` + statusList + `[200,302]},
			"successes":{"type":"integer","minimum":1,"maximum":254,"default":2}}},
		"unhealthy":{"type":"object","properties":{
			"interval":{"type":"integer","minimum":1,"default":1},
			"http_statuses":` + statusList + `[429,404,500,501,502,503,504,505]},
			"http_failures":{"type":"integer","minimum":1,"maximum":254,"default":5},
			"tcp_failures":{"type":"integer","minimum":1,"maximum":254,"default":2},
			"timeouts":{"type":"integer","minimum":1,"maximum":254,"default":3}}},
		"req_headers":{"type":"array","minItems":1,"items":{"type":"string"}}}}`
	defPassive = `{"type":"object","properties":{
		"type":` + defProtocol + `,
		"healthy":{"type":"object","properties":{
			"http_statuses":` + statusList + `[200,201,202,203,204,205,206,207,208,226,300,301,302,303,304,305,306,307,308]},
			"successes":{"type":"integer","minimum":0,"maximum":254,"default":5}}},
		"unhealthy":{"type":"object","properties":{
			"http_statuses":` + statusList + `[429,500,503]},
			"tcp_failures":{"type":"integer","minimum":0,"maximum":254,"default":2},
			"timeouts":{"type":"integer","minimum":0,"maximum":254,"default":7},
			"http_failures":{"type":"integer","minimum":0,"maximum":254,"default":5}}}}}`
	defChecks = `{"type":"object","properties":{"active":` + defActive + `,"passive":` + defPassive + `},
		"anyOf":[{"required":["active"]},{"required":["active","passive"]}]}`
)

const schemaUpstream = `{"type":"object","properties":{` + metadata + `,
	"nodes":{"anyOf":[
		{"type":"object","patternProperties":{".*":{"type":"integer","minimum":0}}},
		{"type":"array","items":{"type":"object","required":["host","weight"],"properties":{
			"host":` + defHost + `,
			"port":` + defPort + `,
			"weight":{"type":"integer","minimum":0},
			"priority":{"type":"integer","default":0},
			"metadata":{"type":"object"}}}}]},
	"retries":{"type":"integer","minimum":0},
	"retry_timeout":{"type":"number","minimum":0},
	"timeout":` + defTimeout + `,
	"tls":{"type":"object","properties":{
			"client_cert_id":` + defID + `,
			"client_cert":` + defCert + `,
			"client_key":` + defKey + `,
			"verify":{"type":"boolean","default":false}},
		"dependencies":{
			"client_cert":{"required":["client_key"]},
			"client_key":{"required":["client_cert"]},
			"client_cert_id":{"not":{"required":["client_cert","client_key"]}}}},
	"keepalive_pool":{"type":"object","properties":{
		"size":{"type":"integer","default":320,"minimum":1},
		"idle_timeout":{"type":"number","default":60,"minimum":0},
		"requests":{"type":"integer","default":1000,"minimum":1}}},
	"type":{"type":"string","default":"roundrobin"},
	"checks":` + defChecks + `,
	"hash_on":{"type":"string","default":"vars","enum":["vars","header","cookie","consumer","vars_combinations"]},
	"key":{"type":"string"},
	"scheme":{"default":"http","enum":["grpc","grpcs","http","https","tcp","tls","udp","kafka"]},
	"discovery_type":{"type":"string"},
	"discovery_args":{"type":"object","properties":{"namespace_id":{"type":"string"},"group_name":{"type":"string"}}},
	"enable_websocket":` + defWebsocket + `,
	"pass_host":{"type":"string","enum":["pass","node","rewrite"],"default":"pass"},
	"upstream_host":` + defHost + `,
	"service_name":{"type":"string","minLength":1,"maxLength":256}},
	"oneOf":[{"required":["nodes"]},{"required":["service_name","discovery_type"]}],
	"additionalProperties":false}`

const schemaRoute = `{"type":"object","properties":{` + metadata + `,
	"uri":{"type":"string","minLength":1,"maxLength":4096},
	"uris":{"type":"array","minItems":1,"uniqueItems":true,"items":{"type":"string"}},
	"priority":{"type":"integer","default":0},
	"methods":{"type":"array","uniqueItems":true,"items":{"type":"string",` + defMethods + `}},
	"host":` + defHost + `,
	"hosts":` + defHosts + `,
	"remote_addr":` + defIP + `,
	"remote_addrs":{"type":"array","minItems":1,"uniqueItems":true,"items":` + defIP + `},
	"timeout":` + defTimeout + `,
	"vars":{"type":"array"},
	"filter_func":{"type":"string","minLength":10,"pattern":"^function"},
	"script":` + defScript + `,
	"script_id":` + defID + `,
	"plugins":` + defPlugins + `,
	"plugin_config_id":` + defID + `,
	"upstream":` + schemaUpstream + `,
	"service_id":` + defID + `,
	"upstream_id":` + defID + `,
	"enable_websocket":` + defWebsocket + `,
	"status":` + defSwitch + `},
	"allOf":[
		{"oneOf":[{"required":["uri"]},{"required":["uris"]}]},
		{"oneOf":[{"not":{"anyOf":[{"required":["host"]},{"required":["hosts"]}]}},{"required":["host"]},{"required":["hosts"]}]},
		{"oneOf":[{"not":{"anyOf":[{"required":["remote_addr"]},{"required":["remote_addrs"]}]}},{"required":["remote_addr"]},{"required":["remote_addrs"]}]}],
	"anyOf":[
		{"required":["plugins","uri"]},{"required":["upstream","uri"]},{"required":["upstream_id","uri"]},{"required":["service_id","uri"]},
		{"required":["plugins","uris"]},{"required":["upstream","uris"]},{"required":["upstream_id","uris"]},{"required":["service_id","uris"]},
		{"required":["script","uri"]},{"required":["script","uris"]}],
	"not":{"anyOf":[{"required":["script","plugins"]},{"required":["script","plugin_config_id"]}]},
	"additionalProperties":false}`

const schemaService = `{"type":"object","properties":{` + metadata + `,
	"plugins":` + defPlugins + `,
	"upstream":` + schemaUpstream + `,
	"upstream_id":` + defID + `,
	"script":` + defScript + `,
	"enable_websocket":` + defWebsocket + `,
	"hosts":` + defHosts + `},
	"additionalProperties":false}`

const schemaConsumer = `{"type":"object","properties":{
	"id":` + defID + `,
	"username":{"type":"string","minLength":1,"maxLength":256,"pattern":"^[a-zA-Z0-9_\\-]+$"},
	"desc":` + defDesc + `,
	"labels":` + defLabels + `,` + times + `,
	"group_id":` + defID + `,
	"plugins":` + defPlugins + `},
	"required":["username"],
	"additionalProperties":false}`

const schemaCredential = `{"type":"object","properties":{
	"id":{"oneOf":[` + defID + `,{"type":"string","minLength":15,"maxLength":128,"pattern":"^[a-zA-Z0-9-_]+/credentials/[a-zA-Z0-9-_.]+$"}]},
	"name":` + defName + `,
	"desc":` + defDesc + `,
	"labels":` + defLabels + `,` + times + `,
	"plugins":{"type":"object","maxProperties":1}},
	"additionalProperties":false}`

const schemaConsumerGroup = `{"type":"object","properties":{` + metadata + `,"plugins":` + defPlugins + `},
	"required":["id","plugins"],
	"additionalProperties":false}`

const schemaPluginConfig = `{"type":"object","properties":{
	"id":` + defID + `,"name":{"type":"string"},"desc":` + defDesc + `,"labels":` + defLabels + `,` + times + `,
	"plugins":` + defPlugins + `},
	"required":["id","plugins"],
	"additionalProperties":false}`

const schemaGlobalRule = `{"type":"object","properties":{"id":` + defID + `,` + times + `,"plugins":` + defPlugins + `},
	"required":["id","plugins"],
	"additionalProperties":false}`

const (
	schemaSSL = `{"type":"object","properties":{` + sslMembers + `},` + sslRules

	// schemaSSLStapling is schemaSSL while the plugin ocsp-stapling is enabled.
	schemaSSLStapling = `{"type":"object","properties":{` + sslMembers + `,
		"ocsp_stapling":{"type":"object","properties":{
			"enabled":{"type":"boolean","default":false},
			"skip_verify":{"type":"boolean","default":false},
			"cache_ttl":{"type":"integer","minimum":60,"default":3600}}}},` + sslRules
)

const sslMembers = `
	"id":` + defID + `,"desc":` + defDesc + `,"labels":` + defLabels + `,` + times + `,
	"type":{"type":"string","default":"server","enum":["server","client"]},
	"cert":` + defCert + `,
	"key":` + defKey + `,
	"sni":` + defSNI + `,
	"snis":{"type":"array","minItems":1,"items":` + defSNI + `},
	"certs":{"type":"array","items":` + defCert + `},
	"keys":{"type":"array","items":` + defKey + `},
	"client":{"type":"object","required":["ca"],"properties":{
		"ca":` + defCert + `,
		"depth":{"type":"integer","minimum":0,"default":1},
		"skip_mtls_uri_regex":{"type":"array","minItems":1,"uniqueItems":true,"items":{"type":"string"}}}},
	"status":` + defSwitch + `,
	"ssl_protocols":{"type":"array","maxItems":3,"uniqueItems":true,"items":{"enum":["TLSv1.1","TLSv1.2","TLSv1.3"]}}`

const sslRules = `
	"if":{"properties":{"type":{"enum":["server"]}}},
	"then":{"oneOf":[{"required":["sni","key","cert"]},{"required":["snis","key","cert"]}]},
	"else":{"required":["key","cert"]},
	"additionalProperties":false}`

const schemaProto = `{"type":"object","properties":{` + metadata + `,"content":{"type":"string","minLength":1,"maxLength":1048576}},
	"required":["content"],
	"additionalProperties":false}`

const schemaStreamRoute = `{"type":"object","properties":{` + metadata + `,
	"remote_addr":` + defIP + `,
	"server_addr":` + defIP + `,
	"server_port":` + defPort + `,
	"sni":` + defSNI + `,
	"upstream":` + schemaUpstream + `,
	"upstream_id":` + defID + `,
	"service_id":` + defID + `,
	"plugins":` + defPlugins + `,
	"protocol":{"type":"object","required":["name"],"properties":{
		"name":{"type":"string"},
		"superior_id":` + defID + `,
		"conf":{"type":"object"},
		"logger":{"type":"array","items":{
			"properties":{"name":{"type":"string"},"filter":{"type":"array"},"conf":{"type":"object"}},
			"dependencies":{"name":["conf"]},
			"additionalProperties":false}}}}},
	"additionalProperties":false}`

const schemaPlugins = `{"type":"array","items":{"type":"object","required":["name"],"properties":{
	"name":{"type":"string","minLength":1},"stream":{"type":"boolean"}}}}`

const schemaCostDecoration = `{"type":"object","properties":{` + metadata + `,
	"service_id":` + defID + `,
	"field_path":{"type":"string","pattern":"^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*$"},
	"add_value":{"type":"number","minimum":0,"default":1},
	"add_arguments":{"type":"array","items":{"type":"string","minLength":1}},
	"mul_value":{"type":"number","minimum":0,"default":1},
	"mul_arguments":{"type":"array","items":{"type":"string","minLength":1}}},
	"required":["field_path"],
	"additionalProperties":false}`

// SchemaMeta describes the member _meta that every plugin configuration may
// have.
const SchemaMeta = `{"type":"object","properties":{
	"disable":{"type":"boolean"},
	"error_response":{"oneOf":[{"type":"string"},{"type":"object"}]},
	"priority":{"type":"integer"},
	"filter":{"type":"array"},
	"pre_function":{"type":"string"}},
	"additionalProperties":false}`

// Secret managers.
const (
	schemaVault = `{"type":"object","required":["uri","prefix","token"],"properties":{
		"uri":` + defURI + `,"prefix":{"type":"string"},"token":{"type":"string"},"namespace":{"type":"string"}}}`
	schemaAWS = `{"type":"object","required":["access_key_id","secret_access_key"],"properties":{
		"access_key_id":{"type":"string"},"secret_access_key":{"type":"string"},"session_token":{"type":"string"},
		"region":{"type":"string","default":"us-east-1"},"endpoint_url":` + defURI + `}}`
	schemaGCP = `{"type":"object","properties":{
		"auth_config":{"type":"object","required":["client_email","private_key","project_id"],"properties":{
			"client_email":{"type":"string"},"private_key":{"type":"string"},"project_id":{"type":"string"},
			"token_uri":{"type":"string","default":"https://oauth2.googleapis.com/token"},
			"scope":{"type":"array","items":{"type":"string"},"default":["https://www.googleapis.com/auth/cloud-platform"]},
			"entries_uri":{"type":"string","default":"https://secretmanager.googleapis.com/v1"}}},
		"ssl_verify":{"type":"boolean","default":true},
		"auth_file":{"type":"string"}},
		"oneOf":[{"required":["auth_config"]},{"required":["auth_file"]}]}`
)

// What the key of an upstream of type chash may be, by hash_on.
const (
	schemaHashVars = `{"type":"string","pattern":"^((uri|server_name|server_addr|request_uri|remote_port|remote_addr|query_string|host|hostname|mqtt_client_id)|arg_[0-9a-zA-z_-]+)$"}`
	schemaHashName = `{"type":"string","pattern":"^[a-zA-Z0-9-_]+$"}`
	schemaHashMix  = `{"type":"string"}`
)
