package plugin

// An Authenticator is what plugins that authenticate a consumer have in common:
// how they refuse, and who may stand in for a caller they do not know.
type Authenticator struct {
	env       Env
	plugin    string
	challenge [2]string
	anonymous string
	nobody    *Reply
}

// NewAuthenticator makes the Authenticator of one configuration of the named
// plugin. challenge is the value of WWW-Authenticate (RFC 9110 §11.6.1);
// anonymous names the consumer to stand in, empty: none does.
func NewAuthenticator(env Env, plugin, challenge, anonymous string) *Authenticator {
	a := &Authenticator{env: env, plugin: plugin, challenge: [2]string{"WWW-Authenticate", challenge}, anonymous: anonymous}
	a.nobody = a.Refusal("Invalid user authorization")
	return a
}

// Refusal makes the answer to a caller who is not admitted. It is for compile
// time.
func (a *Authenticator) Refusal(message string) *Reply {
	return JSON(401, map[string]string{"message": message}, a.challenge)
}

// Admit makes who the request's consumer. If that is nil, the anonymous
// consumer stands in; where there is none to stand in, refusal is the answer.
func (a *Authenticator) Admit(c *Ctx, who *Consumer, refusal *Reply) *Reply {
	if who == nil {
		if a.anonymous == "" {
			return refusal
		}
		if who = c.Named(a.anonymous); who == nil {
			a.env.Log.Error("anonymous consumer not found", "plugin", a.plugin, "route", c.RouteID(), "consumer", a.anonymous)
			return a.nobody
		}
	}
	c.Consumer = who
	return nil
}
