package portal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"weir/internal/dialect/apicast"
)

// An origin is where documents come from.
type origin struct {
	*fetcher
	Config
	where
	room    room // of what is loaded
	v2      *v2
	issuers *issuers

	mu   sync.Mutex
	read *fileRead // of the file; nil: it was not read
}

// A whole is a document of which what is not served was left out.
type whole struct {
	entries []*apicast.Entry
	named   bool           // the document says which services there are
	ttl     *time.Duration // its own; nil: it has none
}

// fileRead is what a file held when it was read.
type fileRead struct {
	info fs.FileInfo
	at   time.Time
	doc  *whole
}

// loaded is what came from the origin.
type loaded struct {
	host     string
	begun    int64 // when it was asked for, in the order of loads
	whole    bool  // it is all there is, whatever the host
	services []service
	unread   []*apicast.Entry // of services, too; that cannot be read
	ttl      *time.Duration   // the document's own; nil: it has none

	standalone *apicast.Standalone // nil: it is a document of products
}

func newOrigin(cfg Config) (*origin, error) {
	w, err := locate(cfg.Configuration, cfg.File, cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	cfg.Endpoint = w.endpoint
	f := newFetcher(cfg.Transport, cfg.UserAgent)
	o := &origin{fetcher: f, Config: cfg, where: w}
	o.v2 = &v2{fetcher: f, Config: cfg, last: &lastGood{}}
	o.room.limit, o.room.setting = cfg.Limit, "WEIR_PRODUCTS_LIMIT"
	o.issuers = &issuers{fetcher: f, room: room{limit: discoveryRoom, each: issuerRoom, setting: "fixed"}, now: cfg.Now, known: map[string]*issuer{}}
	return o, nil
}

// byHost says that the origin can be asked for one host; otherwise every answer
// is the whole configuration.
func (o *origin) byHost() bool { return o.data == nil && o.file == "" && len(o.Versions) == 0 }

// load reads what there is for a host, or everything.
func (o *origin) load(ctx context.Context, host string) (*loaded, error) {
	out := &loaded{host: host, whole: true}
	var entries []*apicast.Entry
	var err error
	switch {
	case o.Standalone:
		entries, err = o.standalone(out)
	case o.data != nil || o.file != "":
		entries, err = o.local(out)
	default:
		entries, err = o.remote(ctx, out)
	}
	if err != nil {
		return nil, err
	}
	out.services, out.unread = o.services(ctx, entries)
	return out, ctx.Err()
}

// services are the entries that can be read, with their OIDC parts, and the others.
func (o *origin) services(ctx context.Context, entries []*apicast.Entry) (services []service, unread []*apicast.Entry) {
	isUnread := func(e *apicast.Entry) bool { return e.Unread != nil }
	if slices.ContainsFunc(entries, isUnread) {
		for _, e := range entries {
			if isUnread(e) {
				unread = append(unread, e)
			}
		}
		entries = slices.DeleteFunc(slices.Clone(entries), isUnread)
	}
	return o.discovered(ctx, entries), unread
}

// scope is the host that this is all of; empty: it is all there is.
func (l *loaded) scope() string {
	if l.whole {
		return ""
	}
	return l.host
}

func (o *origin) local(out *loaded) ([]*apicast.Entry, error) {
	w, err := o.document()
	if err != nil {
		return nil, err
	}
	out.ttl = w.ttl
	return w.entries, nil
}

// standalone reads a document of the policy standalone.
func (o *origin) standalone(out *loaded) ([]*apicast.Entry, error) {
	raw, err := o.data, error(nil)
	switch {
	case o.file != "":
		raw, err = fileJSON(o.file)
	case o.data == nil:
		err = errNoStandalone
	}
	if err != nil {
		return nil, err
	}
	if out.standalone, err = apicast.ReadStandalone(raw); err != nil {
		return nil, err
	}
	return out.standalone.Entries, nil
}

var errNoStandalone = errors.New("a document of the policy standalone is a file or a data URL")

// document is that of the file or the data URL; of a file that has not changed
// it is the same as before.
func (o *origin) document() (*whole, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.data != nil {
		if o.read == nil {
			d, err := apicast.Read(o.data)
			if err != nil {
				return nil, err
			}
			o.read = &fileRead{doc: o.whole(d)}
		}
		return o.read.doc, nil
	}
	info, err := os.Stat(o.file)
	if err != nil {
		return nil, err
	}
	// A file that was read sooner after its change than the time stamps of file
	// systems are coarse may have been changed once more.
	const racy = 2 * time.Second
	if r := o.read; r != nil && os.SameFile(r.info, info) && r.info.Size() == info.Size() && r.info.ModTime().Equal(info.ModTime()) && r.at.Sub(info.ModTime()) > racy {
		return r.doc, nil
	}
	now := o.Now()
	d, err := readFile(o.file)
	if err != nil {
		return nil, err
	}
	if d.Services == nil && o.read != nil && o.read.doc.named {
		return nil, fmt.Errorf("%s: %w", o.file, errNoServices) // a gateway may start with {}, but not lose what it has to it
	}
	o.read = &fileRead{info, now, o.whole(d)}
	return o.read.doc, nil
}

// whole takes of a document what is served.
func (o *origin) whole(d *apicast.Document) *whole {
	entries, left := d.Entries(o.Filter)
	o.leftOut(left)
	return &whole{entries, d.Services != nil, d.TTL}
}

// leftOut logs why services are not served.
func (o *origin) leftOut(left []error) {
	const most = 100
	for _, err := range left[:min(len(left), most)] {
		o.Log.Warn("3scale configuration: left out", "err", err)
	}
	if len(left) > most {
		o.Log.Warn("3scale configuration: more is left out", "services", len(left)-most)
	}
}

// remote asks the portal, in its old form where the new one has nothing.
func (o *origin) remote(ctx context.Context, out *loaded) ([]*apicast.Entry, error) {
	if o.endpoint == "" {
		return nil, errNoEndpoint
	}
	v := o.room.enter()
	defer v.leave()
	entries, whole, err := o.v2.load(ctx, out.host, v)
	if err == nil {
		out.whole = whole
		return o.served(entries), nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	w, errV1 := o.loadV1(ctx, v)
	if errV1 != nil {
		return nil, fmt.Errorf("%w; as a whole document: %w", err, errV1)
	}
	out.ttl = w.ttl
	return w.entries, nil
}

// served are the services of the portal that are served, the first of each id.
func (o *origin) served(entries []*apicast.Entry) []*apicast.Entry {
	var out []*apicast.Entry
	var left []error
	seen := map[string]bool{}
	for _, e := range entries {
		switch {
		case !o.Filter.Keeps(e):
		case e.Unread != nil:
			out = append(out, e)
		case seen[e.ID]:
			left = append(left, fmt.Errorf("service %s is there already", e.ID))
		default:
			seen[e.ID] = true
			out = append(out, e)
		}
	}
	o.leftOut(left)
	return out
}

// discovered adds the OIDC parts that the documents do not have. However many
// issuers there are that do not answer, it takes no longer than one of them may.
func (o *origin) discovered(ctx context.Context, entries []*apicast.Entry) []service {
	wanted := map[string]bool{}
	var list []string
	for _, e := range entries {
		if e.Issuer != "" && !wanted[e.Issuer] {
			wanted[e.Issuer] = true
			list = append(list, e.Issuer)
		}
	}
	o.issuers.usefulFirst(list)
	parts := make([][]byte, len(list))
	ctx, cancel := context.WithTimeout(ctx, discoveryTime)
	defer cancel()
	atOnce(issuersAtOnce, len(list), func(i int) {
		var err error
		if parts[i], err = o.issuers.part(ctx, list[i], o.keysAge()); err != nil {
			o.Log.Warn("3scale configuration: tokens of an issuer cannot be verified anew", "kept", parts[i] != nil, "err", err)
		}
	})
	byIssuer := make(map[string][]byte, len(list))
	for i, endpoint := range list {
		byIssuer[endpoint] = parts[i]
	}
	out := make([]service, len(entries))
	for i, e := range entries {
		out[i] = service{e, e.OIDC}
		if e.Issuer != "" {
			out[i].oidc = byIssuer[e.Issuer]
		}
	}
	return out
}

// keysAge is how old keys may get before they are asked for again: as old as the
// configuration. Where that is refreshed at an interval, the keys of the last
// time are always old.
func (o *origin) keysAge() time.Duration {
	switch {
	case o.TTL < 0:
		return -1
	case o.TTL == 0:
		return unknownKeyEvery
	case o.Lazy:
		return o.TTL
	}
	return o.TTL / 2
}

// missing says why the origin gives nothing at all.
func missing(err error) error {
	if errors.Is(err, apicast.ErrNoConfiguration) || errors.Is(err, errNoEndpoint) {
		return fmt.Errorf("missing configuration: %w", err)
	}
	return err
}

// lastGood is what the portal said of services, by the id that it was asked for.
type lastGood struct {
	mu   sync.Mutex
	byID map[string]*apicast.Entry
}

func (l *lastGood) of(id string) *apicast.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

func (l *lastGood) keep(id string, e *apicast.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string]*apicast.Entry{}
	}
	l.byID[id] = e
}
