package config

import "testing"

func TestDefault(t *testing.T) {
	c, err := Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Embedded || c.Deployment.Etcd.Prefix != "/apisix" {
		t.Errorf("%+v", c)
	}
}
