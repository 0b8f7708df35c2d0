package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"weir/internal/source/etcd"
)

// openServerInfo begins to report this gateway to the store, if the list of
// plugins names server-info: a key that vanishes report_ttl seconds after the
// last report (APISIX's plugin of that name).
func (g *Gateway) openServerInfo(context.Context) error {
	const plugin = "server-info"
	if g.store == nil || g.Config.Deployment.Role == "data_plane" || !slices.Contains(g.Config.Plugins, plugin) {
		return nil
	}
	attr := struct {
		TTL int64 `json:"report_ttl"`
	}{60}
	if raw := g.Config.PluginAttr[plugin]; raw != nil {
		if err := json.Unmarshal(raw, &attr); err != nil {
			return fmt.Errorf("plugin_attr.%s: %w", plugin, err)
		}
	}
	if attr.TTL < 3 || attr.TTL > 86400 {
		return fmt.Errorf("plugin_attr.%s: report_ttl %d is not between 3 and 86400", plugin, attr.TTL)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.onStop(func(context.Context) error {
		cancel()
		return nil
	})
	g.background.Go(func() {
		every := time.NewTicker(time.Duration(attr.TTL) * time.Second / 2)
		defer every.Stop()
		for {
			g.reportServer(ctx, attr.TTL)
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

func (g *Gateway) reportServer(ctx context.Context, ttl int64) {
	info := g.server(ctx)
	text, err := json.Marshal(info)
	if err == nil {
		_, err = g.store.Put(ctx, "/data_plane/server_info/"+info.ID, text, etcd.PutOptions{TTL: ttl})
	}
	if err != nil && ctx.Err() == nil {
		g.log.Error("this gateway could not report itself to the store", "err", err)
	}
}
