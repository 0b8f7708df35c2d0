package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// unused lists the keys of n that no field of t stands for.
func unused(n *node, t reflect.Type, path string) []Ignored {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[decoder]()) {
		return nil
	}
	var out []Ignored
	switch {
	case t.Kind() == reflect.Slice && n.kind == list:
		for i, c := range n.nodes {
			out = append(out, unused(c, t.Elem(), dot(path, strconv.Itoa(i+1)))...)
		}
	case t.Kind() == reflect.Struct && n.kind == table:
		known := map[string]reflect.Type{}
		fieldsOf(t, known)
		for i, key := range n.keys {
			at := dot(path, key)
			if ft, ok := known[key]; ok {
				out = append(out, unused(n.nodes[i], ft, at)...)
			} else {
				out = append(out, Ignored{at, reason(at)})
			}
		}
	}
	return out
}

func fieldsOf(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch key := f.Tag.Get("conf"); key {
		case "":
		case "inline":
			fieldsOf(f.Type, into)
		default:
			into[key] = f.Type
		}
	}
}

func dot(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// idle are keys that are read and change nothing in this version, as far as they
// say something else than the defaults. Names are as in meaningless.
var idle = []struct{ path, why string }{
	{"apisix.proxy_cache*", notYet},
	{"apisix.lru*", notYet},
	{"deployment.admin.enable_admin_ui", "there is no page to switch off"},
	{"deployment.etcd.startup_retry", "the start waits for the store"},
	{"nginx_config.http.charset", "answers of Weir's own are in UTF-8"},
	{"nginx_config.http.proxy_ssl_server_name", "the server's name is always sent"},
}

// unmoved lists the keys of user below path that differ from the defaults in
// base and are idle.
func unmoved(user, base *node, path string) []Ignored {
	var out []Ignored
	for i, key := range user.keys {
		at, value := dot(path, key), user.nodes[i]
		var old *node
		if base != nil {
			old = base.get(key)
		}
		why, isIdle := lookUp(idle, at)
		switch {
		case value.same(old):
		case isIdle && (value.kind != table || old == nil):
			out = append(out, Ignored{at, why})
		case value.kind == table:
			out = append(out, unmoved(value, old, at)...)
		}
	}
	return out
}

// foreign lists the kinds of discovery that this version does not have.
func foreign(discovery *node) []Ignored {
	var out []Ignored
	if discovery == nil {
		return nil
	}
	for _, kind := range discovery.keys {
		switch kind {
		case "dns", "consul", "consul_kv", "nacos", "eureka", "kubernetes":
		default:
			out = append(out, Ignored{dot("discovery", kind), notYet})
		}
	}
	return out
}

const (
	unknown  = "unknown key"
	noNginx  = "sizes a part of nginx that Weir does not have"
	snippet  = "nginx text cannot be run"
	noLua    = "Weir does not run Lua"
	oneAlone = "Weir is one process"
	notYet   = "not supported by this version of Weir"
)

// meaningless are keys of APISIX, or beginnings of keys where they end in "*",
// that change nothing in Weir.
var meaningless = []struct{ path, why string }{
	{"apisix.enable_dev_mode", oneAlone},
	{"apisix.worker_startup_time_threshold", oneAlone},
	{"apisix.disable_sync_configuration_during_start", "traffic is served from the first whole state on"},
	{"apisix.extra_lua_path", noLua},
	{"apisix.extra_lua_cpath", noLua},
	{"apisix.lua_module_hook", noLua},
	{"apisix.events*", oneAlone},
	{"apisix.tracing", notYet},
	{"apisix.control.router", "the Control API has no routes of its own"},
	{"deployment.etcd.health_check_timeout", "the etcd client watches its connections itself"},
	{"deployment.etcd.use_grpc", "the etcd client always speaks gRPC"},
	{"ext-plugin*", notYet},
	{"wasm*", notYet},
	{"xrpc*", notYet},
	{"nginx_config.http_*", snippet},
	{"nginx_config.main_configuration_snippet", snippet},
	{"nginx_config.stream_configuration_snippet", snippet},
	{"nginx_config.max_pending_timers", noNginx},
	{"nginx_config.max_running_timers", noNginx},
	{"nginx_config.worker_rlimit_nofile", "the limit of the process is raised to the system's"},
	{"nginx_config.worker_rlimit_core", noNginx},
	{"nginx_config.user", "the process keeps the user that started it"},
	{"nginx_config.meta*", noNginx},
	{"nginx_config.http.lua_shared_dict*", noNginx},
	{"nginx_config.http.custom_lua_shared_dict*", noNginx},
	{"nginx_config.http.variables_hash_max_size", noNginx},
	{"nginx_config.stream.lua_shared_dict*", noNginx},
	{"nginx_config.stream.metrics_zone_size", noNginx},
}

func reason(path string) string {
	if why, ok := lookUp(meaningless, path); ok {
		return why
	}
	return unknown
}

func lookUp(keys []struct{ path, why string }, path string) (why string, ok bool) {
	i := slices.IndexFunc(keys, func(m struct{ path, why string }) bool {
		prefix, open := strings.CutSuffix(m.path, "*")
		return path == m.path || open && strings.HasPrefix(path, prefix)
	})
	if i < 0 {
		return "", false
	}
	return keys[i].why, true
}
