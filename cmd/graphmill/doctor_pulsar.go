package main

import (
	"cmp"
	"context"

	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/sources/pulsar"
)

// pulsarBrokers asks each host of the service URL by itself, and the admin REST where
// there is one. stream may be nil.
func (d *doctor) pulsarBrokers(ctx context.Context, stream *api.Stream) []finding {
	configs, credentials, err := d.entries(d.pulsar, stream)
	if err != nil {
		return []finding{failed(err)}
	}
	var findings []finding
	settings, notes, err := pulsar.ParseConfigs(configs, credentials, d.vault())
	for _, n := range notes {
		findings = append(findings, warn("", "%s", n))
	}
	if err != nil {
		return append(findings, failed(err))
	}
	serviceURL, adminURL := d.pulsarAddresses(stream)
	if serviceURL == "" {
		return append(findings, warn("give --pulsar-service-url pulsar://HOST:PORT", "no default Pulsar is set: each stream has to name its own"))
	}
	for _, n := range settings.Warnings(serviceURL) {
		findings = append(findings, warn("", "%s", n))
	}
	ofAdmin := make(chan []finding, 1)
	go func() { ofAdmin <- adminFindings(ctx, adminURL, settings) }()
	facts, err := pulsar.Diagnose(ctx, serviceURL, settings)
	if err == nil { // else it is no address, and that has been told among the settings
		for _, f := range facts {
			findings = append(findings, pulsarFinding(f))
		}
	}
	return append(findings, <-ofAdmin...)
}

// pulsarAddresses returns which Pulsar is asked, and its admin REST: that of the
// settings belongs to their Pulsar, and to no other that a stream names.
func (d *doctor) pulsarAddresses(stream *api.Stream) (serviceURL, adminURL string) {
	serviceURL, adminURL = d.settings.pulsarServiceURL, d.settings.pulsarAdminURL
	if stream != nil && stream.ServiceURL != "" && stream.ServiceURL != serviceURL {
		return stream.ServiceURL, ""
	}
	return serviceURL, adminURL
}

// What a stream's settings make possible, and streams need.
const (
	givePulsarSettings = "to ask more, give a stream's settings: --stream NAME, or --pulsar-config and --pulsar-credential; "
	needPulsarLogin    = givePulsarSettings + "streams need the credential token, or another login of docs/pulsar-settings.md"
)

func pulsarFinding(f pulsar.BrokerFacts) finding {
	switch {
	case f.Fault != nil:
		return fail(f.Fault.Next, "%s: %s", f.Address, faultText(f.Fault))
	case f.TLS:
		return warn("write pulsar+ssl:// in place of pulsar:// in the service URL", "%s wants TLS", f.Address)
	case f.Login:
		return warn(needPulsarLogin, "%s wants a login", f.Address)
	}
	return ok("%s answers (%s)", f.Address, cmp.Or(f.Version, "Pulsar"))
}

// adminFindings asks the admin REST, where there is one, for the broker's health.
func adminFindings(ctx context.Context, adminURL string, settings pulsar.ClientSettings) []finding {
	if adminURL == "" {
		return nil
	}
	fault, err := pulsar.DiagnoseAdmin(ctx, adminURL, settings)
	switch {
	case err != nil: // no address: told among the settings
		return nil
	case fault == nil:
		return []finding{ok("the admin REST at %s answers, and says that the broker is well", adminURL)}
	case fault.Code == "auth" && !settings.LogsIn():
		return []finding{warn(needPulsarLogin, "the admin REST at %s wants a login", adminURL)}
	case fault.Code == "forbidden":
		return []finding{warn("only superusers may ask for the broker's health; whether streams may ask for their topics: graphmill stream show NAME", "the admin REST at %s answers, and does not tell this login whether the broker is well", adminURL)}
	}
	return []finding{fail(fault.Next, "the admin REST at %s: %s", adminURL, faultText(fault))}
}
