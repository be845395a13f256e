package server

import (
	"context"
	"slices"
)

// foreseePatch tells what a patch would change, beside whatever is being done with
// the stream. What stands in the way now and may be gone by then does not refuse
// it: a module that is not there yet, a start that is under way.
func (s *Server) foreseePatch(ctx context.Context, st *stream, req PatchRequest) (PatchResult, error) {
	rec := st.record()
	p, err := s.draftPatch(rec.Spec, req)
	if err != nil {
		return PatchResult{}, err
	}
	if len(p.changed) > 0 {
		if stillLocked(rec, p.spec) == nil && slices.ContainsFunc(p.changed, connects) {
			if p.warnings, err = s.clientNotes(p.spec, p.spec.StartFrom, false); err != nil {
				return PatchResult{}, err
			}
		}
		p.warnings = append(p.warnings, s.warnings(ctx, p.spec)...)
	}
	rec.Spec = p.spec
	info := st.info()
	info.Spec, info.Warnings = shown(rec), p.warnings
	return PatchResult{StreamInfo: info, Changed: p.changed, Brings: p.brought}, nil
}
