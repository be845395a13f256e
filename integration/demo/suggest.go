package main

// suggest prints five things to try next, with the commands as they have to be
// typed here.
func (d *demo) suggest() {
	d.step("Five things to try next, in another terminal, in this directory")
	if d.once {
		d.say("(This run ends now, and its servers with it: run make demo without DEMO_ONCE for these.)")
	}
	d.say("  export GRAPHMILL_KAFKA_BOOTSTRAP_SERVERS=%s", d.broker.address)
	if d.server.port != defaultPort {
		d.say("  export GRAPHMILL_SERVER=http://%s", d.server.address)
	}
	d.say("")
	d.say("1. Rate a movie, and see it arrive:")
	d.say(`     echo '7:{"userId": 4711, "movieId": 7, "rating": 5, "title": "The Quiet Station"}' | bin/graphmill produce %s --key-separator :`, topic)
	d.say("     bin/graphmill stream show %s", streamName)
	if d.graph.isLedger() {
		d.say("2. Read what would have been executed, one line a batch:")
		d.say("     tail -n 1 %s", d.graph.ledgerFile())
	} else {
		d.say("2. Look at the graph, with Neo4j Browser, cypher-shell or any client of Bolt:")
		d.say("     %s%s", d.graph.uri, d.graph.login())
	}
	d.say("3. Stop the stream, produce as above, start it: it goes on exactly where it was:")
	d.say("     bin/graphmill stream stop %s", streamName)
	d.say("     bin/graphmill stream start %s", streamName)
	d.say("4. A stream without any code, its query in a setting:")
	d.say("     bin/graphmill stream create latest --topics %s --start-from earliest --transform cypher.event \\", topic)
	d.say("       --setting query='MERGE (m:Movie {id: $event.movieId}) SET m.lastRating = $event.rating'")
	d.say("     bin/graphmill stream check latest | head; bin/graphmill stream start latest")
	d.say("5. Write a transformation of your own, and read the API's documentation:")
	d.say("     bin/graphmill new go my-plugin")
	d.say("     http://%s/docs", d.server.address)
}

// login says how to log in to the database, the password by its file.
func (g graph) login() string {
	if g.user == "" {
		return ""
	}
	return ", user " + g.user + ", password in " + g.passwordFile
}
