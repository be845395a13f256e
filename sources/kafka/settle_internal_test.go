package kafka

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/graphmill/graphmill"
)

// A stream that has read a topic of two partitions is started again. What is
// left of its positions, and what has become of the topic meanwhile, decide where
// each partition begins. Where a position is at 5, the first message is 0 and
// latest is 9.
func TestWhereAStartedStreamGoesOn(t *testing.T) {
	const (
		start  = int64(0)
		known  = int64(5)
		latest = int64(9)
		ends   = int64(-1) // with the fault topic_recreated
	)
	noted := func(id string, count string) kadm.OffsetResponses {
		return commitsAt(known, "gm1:"+id+":"+count, 0, 1)
	}
	in := func(id string, partitions ...int32) []graphmill.Position {
		var ps []graphmill.Position
		for _, p := range partitions {
			ps = append(ps, graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: "t", Partition: p}, TopicID: id, Offset: known})
		}
		return ps
	}
	foreign := commitsAt(known, "", 0, 1)
	for _, c := range []struct {
		name       string
		commits    kadm.OffsetResponses
		catalog    []graphmill.Position
		partitions int32   // that the topic has now
		want       []int64 // of each
	}{
		{"commits are there", noted(newID, "2"), in(newID, 0, 1), 2, []int64{known, known}},
		{"commits are there, the catalog is new", noted(newID, "2"), nil, 2, []int64{known, known}},
		{"commits are there, a partition was added", noted(newID, "2"), in(newID, 0, 1), 3, []int64{known, known, start}},
		{"commits are there, a partition was added, the catalog knows one", noted(newID, "2"), in(newID, 1), 3, []int64{known, known, start}},
		{"commits are there, a partition was added, the catalog is new", noted(newID, "2"), nil, 3, []int64{known, known, start}},
		{"commits are there, the topic is another", noted(oldID, "2"), in(oldID, 0, 1), 3, []int64{ends, ends, ends}},
		{"commits are there, the topic is another, the catalog is new", noted(oldID, "2"), nil, 3, []int64{ends, ends, ends}},

		{"commits have expired", nil, in(newID, 0, 1), 2, []int64{known, known}},
		{"commits have expired, a partition was added", nil, in(newID, 0, 1), 3, []int64{known, known, start}},
		// Of the other partition nobody knows whether it is new. Another server
		// may have read it: what it read is read again, and nothing is left out.
		{"commits have expired, the catalog knows one", nil, in(newID, 1), 2, []int64{start, known}},
		{"commits have expired, a partition was added, the catalog knows one", nil, in(newID, 1), 3, []int64{start, known, start}},
		{"commits have expired, the topic is another", nil, in(oldID, 0, 1), 3, []int64{ends, ends, ends}},
		{"commits have expired, the topic is another, the catalog knows one", nil, in(oldID, 1), 3, []int64{ends, ends, ends}},
		{"commits have expired, the catalog knows the topic and an earlier one", nil, append(in(oldID, 1), in(newID, 0)...), 3, []int64{known, ends, start}},
		{"commits have expired, the broker had no topic ids", nil, in("", 0, 1), 3, []int64{known, known, start}},
		// It is no other than a stream that has never been started.
		{"commits have expired, the catalog is new", nil, nil, 3, []int64{latest, latest, latest}},

		{"one commit is gone, the catalog has it", commitsAt(known, "gm1:"+newID+":2", 0), in(newID, 0, 1), 2, []int64{known, known}},
		{"one commit is gone, the catalog has it, a partition was added", commitsAt(known, "gm1:"+newID+":2", 0), in(newID, 0, 1), 3, []int64{known, known, start}},
		// A server whose catalog is new has come first, and has taken all three
		// partitions for old ones.
		{"commits had expired, a partition was added, another server has settled it", commitsAt(latest, "gm1:"+newID+":3", 2), in(newID, 0), 3, []int64{known, start, latest}},
		{"two servers settled at the same time, and one saw fewer partitions", addCommits(commitsAt(known, "gm1:"+newID+":2", 0), commitsAt(known, "gm1:"+newID+":3", 1)), nil, 3, []int64{known, known, start}},

		{"another tool has set all commits", foreign, in(newID, 0, 1), 2, []int64{known, known}},
		{"another tool has set all commits, a partition was added", foreign, in(newID, 0, 1), 3, []int64{known, known, start}},
		{"another tool has set all commits, a partition was added, the catalog is new", foreign, nil, 3, []int64{known, known, latest}},
		{"one position was set by hand, before the first start", commitsAt(known, "gm1:"+newID+":2", 0), in(newID, 0), 2, []int64{known, latest}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Stream: "s", Known: c.catalog}
			f := facts{
				topics: map[string]topicInfo{"t": {id: newID, partitions: c.partitions}}, commits: c.commits,
				first: listing{}, start: listing{}, last: listing{},
			}
			for p := range c.partitions {
				tp := graphmill.TopicPartition{Topic: "t", Partition: p}
				f.first[tp], f.start[tp], f.last[tp] = listedOffset{offset: start}, listedOffset{offset: latest}, listedOffset{offset: latest}
			}
			f.past = map[string]past{"t": f.pastOf(&cfg, "t")}
			var got []int64
			for p := range c.partitions {
				one, err := f.settle(&cfg, graphmill.TopicPartition{Topic: "t", Partition: p}, false, acceptance{})
				var fault *graphmill.Fault
				if errors.As(err, &fault) {
					require.Equal(t, codeTopicRecreate, fault.Code)
					got = append(got, ends)
					continue
				}
				require.NoError(t, err)
				got = append(got, one.Offset)
				if one.origin == graphmill.OriginNewPartition {
					require.LessOrEqual(t, one.note.partitions, p, "the note must say the same to the next who asks")
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func commitsAt(at int64, metadata string, partitions ...int32) kadm.OffsetResponses {
	all := kadm.OffsetResponses{}
	for _, p := range partitions {
		all.Add(kadm.OffsetResponse{Offset: kadm.Offset{Topic: "t", Partition: p, At: at, LeaderEpoch: -1, Metadata: metadata}})
	}
	return all
}

func addCommits(all, more kadm.OffsetResponses) kadm.OffsetResponses {
	more.Each(func(o kadm.OffsetResponse) { all.Add(o) })
	return all
}
