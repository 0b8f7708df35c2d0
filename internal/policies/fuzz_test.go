package policies

import (
	"context"
	"testing"

	"weir/internal/threescale/threescaletest"
)

// FuzzCompile: no configuration of a policy, however odd, may panic.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `{"rules":[{"operations":[{"left":"a","left_type":"liquid","op":"matches","right":"("}]}]}`,
		`{"request":[{"op":"set","header":"a","value":"{{ b","value_type":"liquid"}]}`, `{"mapping_rules":[{"pattern":"/{a}","metric_system_name":"m","delta":"1e400"}]}`,
		`{"condition":{"operations":[{"left":"{{ uri }}","op":"==","right":1}]},"policy_chain":[{"name":"x","configuration":[]}]}`,
		`{"certificates":[{"certificate":"data:,","certificate_key":"data:a;base64,!"}],"whitelist":[{"pem_certificate":"-----BEGIN -----END "}],"commands":[{"op":"gsub","regex":"a*","replace":"$9"}]}`,
		`{"connection_limiters":[{"key":{"name":"a","scope":"service"},"conn":1,"burst":-1,"delay":0}],"redis_url":"redis://:p@:0/x"}`, `{"transformations":[{"match_rule":"/{a}{","template":"{}"}]}`,
	} {
		f.Add(seed)
	}
	p := threescaletest.Product(f, nil, `{"id":1,"backend_version":"1","proxy":{"policy_chain":[]}}`, "")
	over, cancel := context.WithCancel(context.Background())
	cancel() // what would be asked of others is not
	all := All()
	f.Fuzz(func(_ *testing.T, conf string) {
		for _, policy := range all {
			env := threescaletest.Env(p)
			env.Context = over
			if ph, err := policy.Compile([]byte(conf), env); err == nil && ph.Close != nil {
				ph.Close()
			}
			env.Keep.Release()
		}
	})
}
