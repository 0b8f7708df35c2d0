package apisix

import "weir/internal/document"

// unmarshal decodes the document. There may be a million of them at a start, nearly
// all written plainly: those are read in one pass.
func (d *consumerDoc) unmarshal(raw []byte) error {
	if d.plain(raw) {
		return nil
	}
	*d = consumerDoc{}
	return unmarshal(raw, d)
}

// plain decodes a document that is written plainly and has no members but those that
// consumers have; false: it is another.
func (d *consumerDoc) plain(raw []byte) bool {
	return document.PlainMembers(raw, func(name, value []byte) (ok bool) {
		switch string(name) {
		case "username":
			d.Username, ok = document.PlainText(value)
		case "name":
			d.Name, ok = document.PlainText(value)
		case "group_id":
			var text string
			text, ok = document.PlainText(value)
			d.GroupID = id(text)
		case "labels":
			ok = d.Labels == nil && d.Labels.plain(value)
		case "plugins":
			ok = d.Plugins == nil && d.Plugins.plain(value)
		case "id", "desc", "create_time", "update_time":
			ok = true
		}
		return ok
	})
}

func (l *labels) plain(text []byte) bool {
	*l = labels{}
	return document.PlainMembers(text, func(name, value []byte) (ok bool) {
		(*l)[string(name)], ok = document.PlainText(value)
		return ok
	})
}

func (p *plugins) plain(text []byte) bool {
	*p = plugins{}
	return document.PlainMembers(text, func(name, value []byte) bool {
		(*p)[string(name)] = value
		return true
	})
}
