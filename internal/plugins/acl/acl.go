// Package acl admits or refuses callers by their labels.
package acl

import (
	"fmt"

	"weir/internal/expr"
	"weir/internal/plugin"
	"weir/internal/schema"
)

// Plugin is acl as in APISIX.
var Plugin = plugin.Define(
	plugin.Meta{
		Name:     "acl",
		Priority: 2410,
		Guard:    true,
		Doc:      "Admits or refuses callers by the labels of their consumer or, without one, by what the authenticating plugin knows of them.",
	},
	compile,
	plugin.Shared(),
)

// Config is the configuration.
type Config struct {
	Field        string  `json:"external_user_label_field" schema:"default=groups,minLen=1" doc:"JSONPath of the labels in what is known of a caller who is no consumer."`
	FieldKey     string  `json:"external_user_label_field_key" schema:"minLen=1" doc:"Label that these values belong to; the JSONPath itself if absent."`
	Parser       string  `json:"external_user_label_field_parser" schema:"enum=segmented_text|json|table" doc:"How a value is made into several: text with separators, a JSON array in text, an array."`
	Separator    string  `json:"external_user_label_field_separator" schema:"minLen=1" doc:"Regular expression that separates segmented text; white space around it belongs to it."`
	AllowLabels  labels  `json:"allow_labels" doc:"Labels and values; others than those who have one of them are refused."`
	DenyLabels   labels  `json:"deny_labels" doc:"Labels and values; those who have one of them are refused. Asked first."`
	RejectedCode int     `json:"rejected_code" schema:"min=200,default=403" doc:"Status of a refusal."`
	RejectedMsg  *string `json:"rejected_msg" doc:"Message of a refusal."`
}

// Constraints demands labels, and the separator of segmented text.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{
		schema.Keyword("allOf", `[{
			"if": {
				"required": ["external_user_label_field_parser"],
				"properties": {"external_user_label_field_parser": {"const": "segmented_text"}}
			},
			"then": {"required": ["external_user_label_field_separator"]}
		}]`),
		schema.AtLeastOne([]string{"allow_labels"}, []string{"deny_labels"}),
	}
}

// labels are values by label.
type labels map[string][]string

// JSONSchema describes labels.
func (labels) JSONSchema() []byte {
	return []byte(`{"type": "object", "minProperties": 1, "patternProperties": {
		".*": {"type": "array", "minItems": 1, "items": {"type": "string"}}
	}}`)
}

func compile(c *Config, _ plugin.Env) (plugin.Phases, error) {
	field, err := expr.CompileJSONPath(c.Field)
	if err != nil {
		return plugin.Phases{}, fmt.Errorf("invalid external_user_label_field: %w", err)
	}
	parser, err := newParser(c.Parser, c.Separator)
	if err != nil {
		return plugin.Phases{}, fmt.Errorf("invalid external_user_label_field_separator: %w", err)
	}
	label := c.FieldKey
	if label == "" {
		label = c.Field
	}
	message := "The consumer is forbidden."
	if c.RejectedMsg != nil {
		message = *c.RejectedMsg
	}
	missing := plugin.JSON(401, map[string]string{"message": "Missing authentication."})
	forbidden := plugin.JSON(c.RejectedCode, map[string]string{"message": message})

	access := func(r *plugin.Ctx) *plugin.Reply {
		denied, allowed := false, false
		switch {
		case r.Consumer != nil:
			denied = c.DenyLabels.meet(r.Consumer.Labels)
			allowed = c.AllowLabels.meet(r.Consumer.Labels)
		case r.Claims != nil:
			values := parser.values(field.Find(r.Claims))
			denied = anyIn(c.DenyLabels[label], values)
			allowed = anyIn(c.AllowLabels[label], values)
		default:
			return missing
		}
		if denied || c.AllowLabels != nil && !allowed {
			return forbidden
		}
		return nil
	}
	return plugin.Phases{Access: access}, nil
}

// meet says whether a consumer's labels have one of the values.
func (l labels) meet(held map[string]string) bool {
	for label, values := range l {
		text, there := held[label]
		if there && hasOne(text, values) {
			return true
		}
	}
	return false
}
