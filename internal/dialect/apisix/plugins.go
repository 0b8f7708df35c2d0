package apisix

import "strings"

// StreamPluginNames are the plugins of APISIX 3.18 that work on streams.
func StreamPluginNames() []string {
	return strings.Fields("ip-restriction limit-conn mqtt-proxy prometheus syslog traffic-split")
}

// PluginNames are the plugins of APISIX 3.18. One that is not in this build is
// refused as missing here, not as unknown.
func PluginNames() []string {
	return strings.Fields(`
		acl ai ai-aliyun-content-moderation ai-aws-content-moderation ai-cache ai-lakera-guard ai-prompt-decorator
		ai-prompt-guard ai-prompt-template ai-proxy ai-proxy-multi ai-rag ai-rate-limiting ai-request-rewrite
		api-breaker attach-consumer-label authz-casbin authz-casdoor authz-keycloak aws-lambda azure-functions
		basic-auth batch-requests body-transformer brotli cas-auth chaitin-waf clickhouse-logger client-control
		consumer-restriction cors csrf data-mask datadog degraphql dingtalk-auth dubbo-proxy echo elasticsearch-logger
		error-log-logger error-page example-plugin exit-transformer ext-plugin-post-req ext-plugin-post-resp
		ext-plugin-pre-req fault-injection feishu-auth file-logger forward-auth gm google-cloud-logging
		graphql-limit-count graphql-proxy-cache grpc-transcode grpc-web gzip hmac-auth http-dubbo http-logger inspect
		ip-restriction jwe-decrypt jwt-auth kafka-logger kafka-proxy key-auth lago ldap-auth ldap-auth-advanced
		limit-conn limit-count limit-req log-rotate loggly loki-logger mcp-bridge mocking mqtt-proxy multi-auth
		node-status oas-validator ocsp-stapling opa openfunction openid-connect opentelemetry openwhisk prometheus
		proxy-buffering proxy-cache proxy-control proxy-mirror proxy-rewrite public-api real-ip redirect
		referer-restriction request-id request-validation response-rewrite rocketmq-logger saml-auth server-info
		serverless-post-function serverless-pre-function skywalking skywalking-logger sls-logger splunk-hec-logging
		syslog tcp-logger tencent-cloud-cls traffic-label traffic-split ua-restriction udp-logger uri-blocker
		wolf-rbac workflow zipkin`)
}
