package admin

import (
	"context"
	"net/http"
)

// reload reads the list of plugins in config.yaml anew and answers when it is in
// force.
func (a *API) reload(r *http.Request, who string) answer {
	if r.Method != http.MethodPut {
		return refuse(http.StatusMethodNotAllowed, "please use PUT method to reload the plugins, %s method is not allowed.", r.Method)
	}
	ans := answer{status: http.StatusOK, body: []byte("done")}
	if a.deps.Reload == nil {
		return ans
	}
	revision, err := a.deps.Reload(r.Context())
	if err != nil {
		a.deps.Log.Error("admin: the plugins are not reloaded", "err", err)
		return storageFailed(err)
	}
	a.settleChange(r.Context(), Change{Who: who, Peer: r.RemoteAddr, Action: "reload", Revision: revision}, &ans)
	return ans
}

// settleChange waits until a change is live, tells the answer how that went, and
// puts on record who changed what.
func (a *API) settleChange(ctx context.Context, c Change, ans *answer) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.AckTimeout)
	defer cancel()
	c.Live = a.deps.Applier.Wait(ctx, c.Revision) == nil
	ans.revision, ans.late = c.Revision, !c.Live
	if a.deps.Record != nil {
		a.deps.Record(c)
	}
}

func (a *API) settle(r *request, action, id string, revision int64, ans *answer) {
	a.settleChange(r.Context(), Change{r.who, r.RemoteAddr, action, r.object(id), revision, false}, ans)
}
